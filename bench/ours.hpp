// This library, under test by its own benchmarks.
#pragma once
#include <anello/world.hpp>

#include "bench/library.hpp"

namespace anello::bench {

class Ours : public Library {
 public:
  // Borrows the world. The settings are those it was made with, for the report. Shareable: tensors lie in memory from
  // anello::allocate.
  Ours(World& world, const Settings& settings, bool shareable = false)
      : world_(world), settings_(settings), shareable_(shareable) {}

  int rank() const override { return world_.rank(); }
  int size() const override { return world_.size(); }
  nlohmann::json facts() const override;
  Call allreduce(ConstTensor input, Tensor output, Op op) override;
  Memory allocate(std::size_t bytes) override;

 private:
  World& world_;
  Settings settings_;
  bool shareable_;
};

}  // namespace anello::bench
