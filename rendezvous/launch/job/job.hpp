// The job that `anello run` runs. The command line sets it; all other parts of the launcher only read it.
#pragma once
#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/launch/job/allocation.hpp"
#include "rendezvous/launch/job/hosts.hpp"

namespace anello::launch {

// The ranks of one host: `count` consecutive ranks from `first` on.
struct HostRanks {
  std::string host;
  int first = 0, count = 0;

  bool has(int rank) const { return rank >= first && rank < first + count; }
};
using Layout = std::vector<HostRanks>;  // the hosts in the order of their ranks

// How a process is started on other hosts.
enum class Starter { ssh, srun, qrsh, blaunch };
struct RemoteStart {
  Starter starter = Starter::ssh;
  std::vector<std::string> command;  // the first words of a start command: {"ssh", "-F", "config"}
};

// The values of MASTER_ADDR and MASTER_PORT (master.hpp). An empty member is found when the job starts.
struct Master {
  std::string address, port;
};

// How long a host or place that has failed is not used: `first` after one failure; each further failure doubles the
// time, up to `max`.
struct Cooldown {
  std::chrono::milliseconds first{0}, max{0};

  std::chrono::milliseconds after(int failures) const {
    constexpr int kMaxDoublings = 20;
    return failures <= 0 ? std::chrono::milliseconds(0)
                         : std::min(first * (1 << std::min(failures - 1, kMaxDoublings)), max);
  }
};

// A job whose world may change its size. Its ranks are numbered by their places: a process has the number of the
// process that it replaces, independent of its rank in the world.
struct ElasticJob {
  static constexpr int kMaxProcesses = 1 << 16;
  enum class OnFailure {
    place,  // the process is replaced
    host,   // the other processes of its host are ended and replaced too
    job     // the job ends
  };
  // The job can go on with `min` processes, begins with `first`, and has at most `max`. 0: not given yet.
  int min = 0, first = 0, max = 0;
  int max_restarts = 0;  // how many processes may replace others in the whole job
  OnFailure on_failure = OnFailure::place;
  std::chrono::milliseconds patience{600000};  // how long the job waits while it has fewer than min processes
  std::optional<int> reset_limit;              // how many worlds may follow the first one
  std::optional<Cooldown> cooldown;            // how long a host that has failed is not used; nothing: the usual times
};

struct Job {
  std::vector<std::string> command;
  int size = 1;                       // ranks in the world; in an elastic job, places
  std::optional<ElasticJob> elastic;  // nothing: the world has a fixed size
  Layout layout;                      // the ranks that this launcher starts, by host
  Hosts hosts;                        // all hosts that may be used, even if they get no rank
  // The allocation's names of hosts replace the names that the user gave; without an allocation the user's names are
  // used.
  std::optional<Allocation> allocation;
  std::optional<int> per_host;  // -N
  std::string name;             // different for each run; but several launchers that start one world have the same name
  std::string secret;           // empty if this build cannot authenticate
  std::string output_folder;
  std::chrono::milliseconds grace{10000};
  std::chrono::milliseconds silence_limit{0};        // ANELLO_SILENCE_LIMIT; 0: none
  std::optional<std::chrono::milliseconds> timeout;  // limit for the job with all its restarts
  int max_restarts = 0;
  int restart = 0;                              // how often this job has been started again
  bool rank_labels = true, timestamps = false;  // texts before each line of output
  bool verbose = false, dry_run = false;
  bool bind = false;                  // each rank runs on its own cores
  int columns = 0;                    // width of the terminal for rank 0; 0: standard output is not a terminal
  std::optional<RemoteStart> remote;  // nothing: this launcher's ranks are all on this host
  std::string rendezvous;  // "host:port" of a server that several launchers share; empty: this launcher runs its own
  std::string discovery;   // the command that lists the hosts of an elastic job; empty: there is no such command
  std::string host_file;   // file with the hosts of an elastic job, or empty; at SIGHUP the launcher reads it again
  std::vector<std::string> exported;  // the variables that -x names
  // The values that -x gives for MASTER_ADDR and MASTER_PORT; both are set if several launchers start one world.
  Master master;

  bool hosts_may_change() const { return !discovery.empty() || !host_file.empty(); }
  int started_ranks() const {
    int count = 0;
    for (const HostRanks& here : layout) count += here.count;
    return count;
  }
  const std::string& host_of(int rank) const { return ranks_beside(rank).host; }
  const HostRanks& ranks_beside(int rank) const {  // all ranks of its host
    const auto here = std::ranges::find_if(layout, [rank](const HostRanks& one) { return one.has(rank); });
    return here == layout.end() ? layout.front() : *here;
  }
};

}  // namespace anello::launch
