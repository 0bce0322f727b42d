// The processes of a trial: started without a launcher, read from, and none of them left. One thread.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace anello::faults {

class Ranks {
 public:
  Ranks() = default;
  ~Ranks();  // kills and reaps those that are left
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  // The next rank; its standard error is this process's.
  void start(const std::vector<std::string>& command, const std::vector<std::string>& environment);
  void signal(int rank, int number) const;
  void end_input();  // of rank 0

  // What it has written so far; nothing once all has been read.
  const std::string& said(int rank) const { return ranks_[std::size_t(rank)].said; }
  // Until done(*this), `limit` at most.
  template <class Done>
  bool read_until(Done done, std::chrono::milliseconds limit) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (!done(*this)) {
      if (std::chrono::steady_clock::now() >= deadline) return false;
      read_some(std::chrono::milliseconds(20));
    }
    return true;
  }
  bool ended(int rank) const { return ranks_[std::size_t(rank)].out < 0; }
  int size() const { return int(ranks_.size()); }

 private:
  struct Rank {
    pid_t pid = -1;
    int in = -1, out = -1;
    std::string said;
  };
  void read_some(std::chrono::milliseconds limit);

  std::vector<Rank> ranks_;
};

}  // namespace anello::faults
