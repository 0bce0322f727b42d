// Lets all ranks stop after the same step when some ranks have been asked to stop (by SIGTERM, which a batch system
// sends before it takes a machine away). The ranks exchange these requests only a few times a second, not in every
// step. Used by one thread of each rank; does not handle signals itself.
#pragma once
#include <anello/world.hpp>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace anello::trainer {

class StopCheck {
 public:
  // `requested` becomes true when this rank is asked to stop. If `requested` is null on one rank, it must be null on
  // all ranks; then nothing is exchanged.
  StopCheck(World& world, const std::atomic<bool>* requested) : world_(world), requested_(requested) {}

  // All ranks call this after each step. If any rank has been asked to stop, returns true on all ranks after the same
  // step. Most calls only count; about four calls a second make an allreduce, and throw its errors.
  bool after_step();

 private:
  World& world_;
  const std::atomic<bool>* requested_;
  std::uint64_t interval_ = 1, left_ = 1;  // steps between two exchanges; steps until the next exchange
  std::chrono::steady_clock::time_point compared_at_ = std::chrono::steady_clock::now();
};

}  // namespace anello::trainer
