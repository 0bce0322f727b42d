// Implements `Library` with Anello, so that the benchmarks can measure it.
#pragma once
#include <anello/init.hpp>
#include <anello/world.hpp>
#include <functional>
#include <optional>

#include "bench/library.hpp"
#include "ring/agenda/scheduler.hpp"

namespace anello::bench {

// Joins the world, calls `run`, and leaves the world. If `run` throws on one rank, all ranks throw. Returns the result
// of `run`.
int in_world(const Settings& settings, const std::function<int(World&)>& run);

struct OurOptions {
  bool on_gpu = false;             // tensors lie in the memory of this rank's GPU
  bool shareable = false;          // tensors lie in memory from anello::allocate
  std::optional<DType> wire = {};  // the type in which elements of a reduction are sent
  bool async = false;              // each call starts an asynchronous operation and waits for it
  std::uint64_t list_bytes = 0;    // in-place calls get a list of tensors of this size; 0: one tensor
  bool factors = false;  // inputs are multiplied by 2 and results by 1/2, so that sum, min and max do not change
};

class Ours : public Library {
 public:
  // Borrows the world. `settings`: the world's settings, for the report.
  Ours(World& world, const Settings& settings, const OurOptions& options = {})
      : world_(world), settings_(settings), options_(options) {}

  int rank() const override { return world_.rank(); }
  int size() const override { return world_.size(); }
  nlohmann::ordered_json facts() const override;
  Call allreduce(ConstTensor input, Tensor output, Op op) override;
  Call collective(Kind kind, ConstTensor input, Tensor output, Op op) override;
  Call step(std::span<const Tensor> tensors, Calls calls) override;  // `waiting` and `looking` use named operations
  void gather(std::span<double> figures, Op op) override { world_.allreduce(figures, op); }
  Memory allocate(std::size_t bytes) override;

 protected:
  ReduceOptions reduce_options() const;
  void require_use(Kind kind, DType dtype, Op op) const;
  World& world_;
  Settings settings_;
  OurOptions options_;

 private:
  Call of_list(Kind kind, Tensor whole, Op op);
  Call blocking(Kind kind, ConstTensor input, Tensor output, Op op);
  Call asynchronous(Kind kind, ConstTensor input, Tensor output, Op op);

  std::shared_ptr<agenda::Scheduler> agenda_;  // made by step()
};

}  // namespace anello::bench
