// Ranks on this host, below a keeper process (keeper.hpp). Used by the launcher, and by an agent on another host.
#pragma once
#include <deque>
#include <vector>

#include "rendezvous/launch/processes/keeper.hpp"
#include "rendezvous/launch/processes/rank_processes.hpp"

namespace anello::launch {

// State that this process has changed for itself. The ranks get the user's original state.
struct Inherited {
  sigset_t signal_mask;
  unsigned long open_files_limit;
  char** argv;  // argument of main()
};

inline constexpr const char* kNoLoopback =
    "there is no loopback address, so ranks of one host cannot connect; run: ip link set lo up";

class LocalRanks : public RankProcesses {
 public:
  // Starts the keeper. Call while the process has one thread. `ends`: the pipe ends of the ranks, in their order.
  // `lifeline`: in an agent, its lifeline, which the keeper watches too (keeper.hpp).
  LocalRanks(const Job& job, const HostRanks& here, std::string rendezvous_host, Master master,
             std::vector<RankEnds> ends, const Inherited& inherited, RankEvents events, Descriptor lifeline = {});
  // Blocks until the keeper has ended, so that no rank outlives this object. If the keeper has done its work, this
  // takes no time. Otherwise the keeper kills the ranks, for at most 10 s. A process that the kernel cannot end in this
  // time is left behind.
  ~LocalRanks() override;
  LocalRanks(const LocalRanks&) = delete;
  LocalRanks& operator=(const LocalRanks&) = delete;

  void start(std::uint16_t port) override;
  void order(const Order& order) override;
  void watch(PollSet& polls) override;

  void give_up() override { gave_up_ = true; }

 private:
  void send_orders();
  void receive();
  void receive_last_words();
  std::string how_the_keeper_ended();

  RankEvents events_;
  Descriptor channel_, last_words_;
  std::deque<Order> orders_;  // orders for which the channel had no room yet
  pid_t keeper_ = -1;
  bool gave_up_ = false, ended_ = false;
  bool words_ended_ = false;  // true if no process can send a last word any more
};

// Raises this process's limit of open files to the maximum, so that connections of other programs leave enough
// descriptors. Throws Error{configuration} if the maximum is too low for the pipes and connections of `ranks` ranks.
void raise_open_files_limit(int ranks);

// Throws Error{configuration} if the limit of a file's size is too low even for the job's secret, or if the loopback
// interface is down.
void check_this_host();

}  // namespace anello::launch
