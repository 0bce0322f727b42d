// One host: its cores, which its ranks share, and its network interface. Pure.
#pragma once
#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

namespace anello::bench {

// A host's cores. A rank keeps its core until leave(); then the rank that has waited longest takes the core.
class Cores {
 public:
  struct Assignment {
    std::uint32_t core;
    bool switched;  // true if another rank had the core before
  };

  explicit Cores(int count) : cores_(std::size_t(count)) {}
  std::size_t count() const { return cores_.size(); }

  // Gives the rank a free core: its last core if that is free, otherwise preferably a core that no rank has had. Empty
  // if no core is free; the rank then waits until another rank leaves its core.
  std::optional<Assignment> enter(std::uint32_t rank) {
    const auto best = std::ranges::min_element(cores_, {}, [rank](const Core& core) {
      return core.busy ? 3 : core.last == rank ? 0 : core.last == kNoRank ? 1 : 2;
    });
    if (!best->busy) return take(std::uint32_t(best - cores_.begin()), rank);
    waiting_.push_back(rank);
    return std::nullopt;
  }

  // Frees the core. Returns the waiting rank that gets it now, if a rank waits.
  std::optional<std::uint32_t> leave(std::uint32_t core) {
    cores_[core].busy = false;
    if (waiting_.empty()) return std::nullopt;
    const std::uint32_t next = waiting_.front();
    waiting_.pop_front();
    return next;
  }

  Assignment take(std::uint32_t core, std::uint32_t rank) {
    const std::uint32_t last = std::exchange(cores_[core].last, rank);
    cores_[core].busy = true;
    return {core, last != rank && last != kNoRank};
  }

 private:
  static constexpr std::uint32_t kNoRank = UINT32_MAX;
  struct Core {
    bool busy = false;
    std::uint32_t last = kNoRank;
  };
  std::vector<Core> cores_;
  std::deque<std::uint32_t> waiting_;
};

// Carries transfers one after another, like one direction of a network interface.
class Lane {
 public:
  // Returns the time at which a transfer that is ready now begins.
  double carry(double now_us, double us) {
    const double begins_us = std::max(now_us, free_us_);
    free_us_ = begins_us + us;
    busy_us_ += us;
    return begins_us;
  }
  double busy_us() const { return busy_us_; }

 private:
  double free_us_ = 0, busy_us_ = 0;
};

struct Host {
  explicit Host(int core_count) : cores(core_count) {}
  Cores cores;
  double cores_busy_us = 0;
  Lane out, in;  // the two directions of the interface
};

}  // namespace anello::bench
