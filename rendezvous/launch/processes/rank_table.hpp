// The reported state of each rank's process. Owned by the Supervisor.
#pragma once
#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace anello::launch {

using Clock = std::chrono::steady_clock;

class RankTable {
 public:
  explicit RankTable(int size) : ranks_(std::size_t(size)) {}

  void grow(int size) { ranks_.resize(std::size_t(size)); }
  void started(int rank, pid_t pid);
  void ended(int rank, bool succeeded);  // `succeeded`: with status 0
  void lost(int rank);                   // the rank's host was lost; does nothing if the rank is not alive
  void stopped(int rank, int signal, Clock::time_point now) { at(rank).stop = {now, signal}; }
  void continued(int rank) { at(rank).stop.reset(); }

  bool is_stopped(int rank) const { return at(rank).stop.has_value(); }
  bool succeeded(int rank) const { return at(rank).succeeded; }
  pid_t pid(int rank) const { return at(rank).pid; }
  int alive_count() const { return alive_count_; }
  int ended_count() const { return ended_count_; }
  bool any_started() const { return any_started_; }
  std::vector<int> alive() const;  // ascending

  // The next four functions are about the ranks that are alive.
  bool all_are_stopped() const;
  Clock::time_point last_stop(Clock::time_point before) const;  // returns `before` if none was stopped later
  std::string stop_signals() const;  // the signals that stopped them, each once, in the order of the ranks
  std::string list() const;          // "ranks 1, 3"; if none is alive: the processes that ranks started

 private:
  struct Stop {
    Clock::time_point since;
    int signal;
  };
  struct Rank {
    bool alive = false, succeeded = false;
    pid_t pid = 0;
    std::optional<Stop> stop;
  };
  Rank& at(int rank) { return ranks_[std::size_t(rank)]; }
  const Rank& at(int rank) const { return ranks_[std::size_t(rank)]; }

  std::vector<Rank> ranks_;
  int alive_count_ = 0, ended_count_ = 0;
  bool any_started_ = false;
};

}  // namespace anello::launch
