// From gradients to averaged gradients, while the backward pass still runs: what Horovod's DistributedOptimizer and
// PyTorch's DistributedDataParallel do between backward and the optimizer's step.
//
//   anello::Gradients gradients(world, {{"weight", weight_gradient}, {"bias", bias_gradient}});   // once
//   gradients.begin();                                                                            // each step
//   ... backward: gradients.ready(1); ... gradients.ready(0);   as each of them is complete
//   gradients.finish();                                                                           // blocks
//
// Gradients travel in buckets, in place and without a copy, each as one operation that starts when the last gradient
// in it is ready on this rank; operations of an own group, which go on beside those of others. Buckets follow the order
// in which gradients became ready on rank 0 in the first step.
// Source: Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training", 2020.
#pragma once
#include <anello/export.h>
#include <anello/group.hpp>
#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

ANELLO_API_BEGIN
namespace anello {

// A parameter's gradient: f16, bf16, f32 or f64, borrowed as long as the Gradients live. The shape, if given, is only
// compared between ranks.
struct Gradient {
  std::string_view name;
  Tensor tensor;
  std::span<const std::uint64_t> shape = {};
};

// Equal on all ranks.
struct GradientOptions {
  enum class Combine {
    average,   // sum over ranks of factor x gradient, divided by their number
    sum,       // not divided
    weighted,  // divided by the sum of the factors: with a rank's samples as its factor every sample counts the same
  };
  Combine combine = Combine::average;
  std::int64_t bucket_bytes = -1;  // a bucket's most; 0: a suitable one; -1: ANELLO_BUCKET_BYTES
  // Tries several sizes of buckets in the first steps (six of each) and goes on with the one that was the fastest on
  // rank 0; bucket_bytes is not regarded. Sums then round differently from run to run, but in reproducible mode.
  bool tune_buckets = false;
  std::optional<DType> wire = {};  // as in ReduceOptions
  // Of f32 with `wire`: what rounding takes from a gradient is added to the next step's, so that it is not lost.
  // Source: Seide et al., "1-bit stochastic gradient descent", 2014. Costs as much memory as the gradients.
  bool error_feedback = false;
  double max_norm = 0;  // gradients are scaled down to this global norm, if they have more; 0: they are not
  int passes = 1;       // backward passes a step: a gradient is ready when it has been announced as often
};

class Gradients {
 public:
  // All ranks of the group call, with the same gradients: Error{mismatch} on all of them names the first parameter that
  // differs, both ranks and both values.
  Gradients(Group& group, std::span<const Gradient> gradients, const GradientOptions& options = {});
  Gradients(Group& group, std::initializer_list<Gradient> gradients, const GradientOptions& options = {});
  Gradients(Gradients&&) noexcept;
  Gradients& operator=(Gradients&&) noexcept;
  ~Gradients();

  // A step begins, in which this rank's gradients are multiplied by `factor`. One thread at a time calls these three.
  // Error{invalid_argument} if one has begun already.
  void begin(double factor = 1);

  // This gradient, by its place in the list, is complete, and not to be touched until finish() returns. Waits for
  // nobody, but once a step for the sum of the factors, where they are weights. Error{invalid_argument} that names it,
  // if it has been announced as often as it may or no step has begun; the step goes on.
  void ready(std::size_t gradient);

  struct Step {
    double norm = 0;  // of all gradients together, before they were scaled down; 0 if there is no max_norm
    std::chrono::nanoseconds exposed{0};       // that finish() waited for operations
    std::chrono::nanoseconds communicated{0};  // that operations took, from beginning to end, hidden or not
  };
  // Blocks until all gradients are what they were to become. Those that were never announced count as zero on this
  // rank. Every rank calls it, also after an error of ready(). Errors as of allreduce.
  Step finish();

  // The gradients in each bucket, by their place in the list, in the order in which they travel.
  std::vector<std::vector<std::size_t>> buckets() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace anello
ANELLO_API_END
