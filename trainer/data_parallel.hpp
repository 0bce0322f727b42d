// What makes training data-parallel: an optimizer that steps along the gradient averaged over all ranks, and the check
// that the ranks agree. One rank, one thread; every call is collective.
#pragma once
#include <anello/world.hpp>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "trainer/optimizer.hpp"

namespace anello::trainer {

// "none", "fp16" or "bf16": as what gradients travel.
DType wire_type(std::string_view compression);

class DataParallel {
 public:
  DataParallel(World& world, Backend& backend, std::unique_ptr<Optimizer> optimizer, std::size_t global_batch,
               DType wire);

  // `gradient` is summed over this rank's samples; it is replaced by the sum over all ranks divided by the global
  // batch. An epoch's last batch, if smaller, is divided by as much: every sample weighs the same, and a last batch of
  // one does not throw the model about. Dividing comes before rounding to 16 bits, so that large sums do not overflow
  // them. Blocks until all ranks have stepped; errors as of World::allreduce.
  void step(std::span<float> parameters, std::span<float> gradient, double rate, std::uint64_t count);

  std::vector<std::span<float>> state() { return optimizer_->state(); }
  double communication_seconds() const { return communication_seconds_; }  // since construction

 private:
  World& world_;
  Backend& backend_;
  std::unique_ptr<Optimizer> optimizer_;
  std::size_t global_batch_;
  DType wire_;
  double communication_seconds_ = 0;
};

// Error{mismatch} on every rank if one has another value than rank 0, with that rank, its host and `what` in it.
void require_equal(World& world, std::uint64_t value, std::string_view what);

}  // namespace anello::trainer
