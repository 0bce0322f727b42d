// Lets all ranks stop after the same step when some of them have been asked to (by SIGTERM, which a batch system sends
// before it takes a machine away). The ranks compare only a few times a second, not in every step. Used by one thread
// of each rank; independent of signals.
#pragma once
#include <anello/world.hpp>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace anello::trainer {

class StopCheck {
 public:
  // `requested` becomes true when this rank is asked to stop. If it is null, on all ranks, nothing is compared.
  StopCheck(World& world, const std::atomic<bool>* requested) : world_(world), requested_(requested) {}

  // All ranks call it after each step. Returns true, on all ranks after the same step, once any of them has been asked
  // to stop. Most calls only count; about four a second are an allreduce, and throw its errors.
  bool after_step();

 private:
  World& world_;
  const std::atomic<bool>* requested_;
  std::uint64_t interval_ = 1, left_ = 1;  // steps from one comparison to the next, and until the next
  std::chrono::steady_clock::time_point compared_at_ = std::chrono::steady_clock::now();
};

}  // namespace anello::trainer
