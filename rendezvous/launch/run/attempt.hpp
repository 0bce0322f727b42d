// One attempt to run a job: the processes of the ranks, their output and input, signals, and how the attempt ended.
// Blocks the launcher's thread.
#pragma once
#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "rendezvous/launch/base/poll_set.hpp"
#include "rendezvous/launch/base/signals.hpp"
#include "rendezvous/launch/output/output.hpp"
#include "rendezvous/launch/processes/descendants.hpp"
#include "rendezvous/launch/processes/rank_processes.hpp"
#include "rendezvous/launch/processes/supervisor.hpp"
#include "rendezvous/launch/run/followed_hosts.hpp"
#include "rendezvous/launch/run/input.hpp"
#include "rendezvous/launch/run/job_requests.hpp"
#include "rendezvous/launch/run/run.hpp"

namespace anello::launch {

// The state that all attempts of a job share.
struct LauncherProcess {
  char** const argv;
  // The children that this process had before it executed `anello`.
  const std::vector<pid_t> inherited_children = children();
  const OpenFilesLimit files = open_files_limit();
  Signals signals{ending_signals_and({SIGUSR1, SIGUSR2, SIGTSTP})};
  const std::optional<Clock::time_point> limit;  // --timeout
};

// How to start a job again.
struct Restart {
  std::chrono::milliseconds pause;  // the wait before this start
  Job job;                          // the job, on the hosts that are left
};

class Attempt {
 public:
  // Starts the keeper, or the commands that start agents. Call while the process has one thread.
  Attempt(const Job& job, const RendezvousHooks& hooks, LauncherProcess& launcher);
  // Blocks like the destructor of LocalRanks or RemoteRanks.
  ~Attempt() = default;
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  // Runs the job to its end, and returns its exit code. The rendezvous listens at `port`.
  int run(std::uint16_t port);
  const std::optional<Restart>& restart() const { return restart_; }  // nothing: the job is not started again

 private:
  std::unique_ptr<Supervisor> make_supervisor(const RendezvousHooks& hooks);
  std::unique_ptr<RankProcesses> make_ranks();
  void follow_hosts(RemoteRanks& ranks, const Inherited& inherited);
  std::string answer(const std::string& request);
  std::string rendezvous_host() const;
  Master master() const;
  void watch(PollSet& polls);
  void act();
  void take_signals();
  void pause_all();
  void hurry();
  std::optional<Clock::time_point> output_limit() const;
  void learn_cores(const HostRanks& here, double cores);
  void lose(const HostLoss& loss);
  std::vector<RankEnds> make_ends(const HostRanks& here);
  void conclude();
  void lay_out_again(Job& next) const;
  void plan_restart();
  bool finished() const { return concluded_ && (output_.written() || discard_output_); }

  Job job_;  // its layout grows if hosts are discovered
  LauncherProcess& launcher_;
  const std::function<void(int)> rank_exited_;
  Output output_;
  Input input_;
  ElasticSupervisor* elastic_ = nullptr;  // the supervisor, if the job is elastic
  std::unique_ptr<Supervisor> supervisor_;
  std::optional<JobRequests> requests_;  // set only if the job is elastic
  std::unique_ptr<RankProcesses> ranks_;
  std::optional<FollowedHosts> hosts_;  // set only if the hosts of the job may change
  const Clock::time_point began_ = Clock::now();
  bool ended_ = false, concluded_ = false, discard_output_ = false;
  std::size_t hosts_known_ = 0;              // hosts that have reported their number of cores
  std::vector<std::string> crowded_, lost_;  // names of hosts; a lost host that is used again is removed
  std::string crowding_;                     // describes the first crowded host
  bool warned_of_crowding_ = false;
  std::optional<std::uint64_t> failed_at_;  // number of output lines before the supervisor's first message
  std::optional<Restart> restart_;
  Clock::time_point last_bytes_until_{}, over_since_{};
};

}  // namespace anello::launch
