// Averages gradients over the ranks while the backward pass still runs, like Horovod's DistributedOptimizer and
// PyTorch's DistributedDataParallel between the backward pass and the optimizer's step.
//
//   anello::Gradients gradients(world, {{"weight", weight_gradient}, {"bias", bias_gradient}});  // once
//   gradients.begin();                                                                           // in each step
//   // backward pass: gradients.ready(1); ... gradients.ready(0);   each when it is complete
//   gradients.finish();                                                                          // blocks
//
// Gradients are sent in buckets, in place and without a copy. A bucket is one allreduce; it starts when its last
// gradient is ready on this rank. Buckets use a group and connections of their own, so they do not wait for other
// operations. They follow the order in which gradients became ready on rank 0 in the first step.
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

// The gradient of one parameter: elements of f16, bf16, f32 or f64, borrowed until the Gradients object is destroyed.
struct Gradient {
  std::string_view name;  // one line, not empty, unique in the list
  Tensor tensor;
  std::span<const std::uint64_t> shape = {};  // optional; only compared between ranks
};

// All ranks must give the same options.
struct GradientOptions {
  // The value of each gradient after finish(). A rank's value is `factor` x its gradient.
  enum class Combine {
    average,   // sum of the ranks' values, divided by the number of ranks
    sum,       // sum of the ranks' values
    weighted,  // sum of the ranks' values, divided by the sum of the factors. If a rank's factor is its number of
               // samples, every sample counts the same
  };
  Combine combine = Combine::average;
  // The maximum size of a bucket. 0: a suitable size. Not given: ANELLO_BUCKET_BYTES decides.
  std::optional<std::int64_t> bucket_bytes = {};
  // Tries several bucket sizes in the first steps, six steps each, and keeps the size that was the fastest on rank 0;
  // bucket_bytes is then ignored. Rounding may vary from run to run, except in reproducible mode.
  bool tune_buckets = false;
  // f16 or bf16: the type in which gradients are sent. f16 holds numbers up to 65504. With `average` the mean must not
  // exceed this, with `sum` the sum must not exceed it; see ReduceOptions and Op.
  std::optional<DType> wire = {};
  // Only for f32 with `wire`: the rounding error of a gradient is added to the same gradient of the next step, so that
  // the error is not lost. If the rounded gradient is not finite, nothing is added. Needs as much memory as the
  // gradients. Source: Seide et al., "1-bit stochastic gradient descent", 2014.
  bool error_feedback = false;
  // The maximum norm of all gradients together. If their norm is larger, all gradients are scaled down to this norm.
  // Must be positive. Not given: there is no maximum.
  std::optional<double> max_norm = {};
  // The number of backward passes in a step. A gradient is complete when ready() was called for it in each pass.
  int accumulation_passes = 1;
  // How finish() treats a gradient for which ready() was not called in each pass:
  enum class Unannounced {
    error,  // finish() throws on all ranks, and names the gradient and a rank that did not announce it
    zero,   // a gradient that was never announced counts as zero on this rank; a gradient that was announced too rarely
            // is taken as it is. For models that do not use all parameters in every step
  };
  Unannounced unannounced = Unannounced::error;
};

// The measurements that finish() made in one step.
struct StepStats {
  std::optional<double> norm = {};           // norm of all gradients together, before scaling; only with max_norm
  std::chrono::nanoseconds exposed{0};       // how long finish() waited for operations
  std::chrono::nanoseconds communicated{0};  // how long operations took from beginning to end, hidden or not
};

class Gradients {
 public:
  // A collective: all ranks of the group call it with the same list and the same options. Blocks. If lists or options
  // differ, throws Error{mismatch} on all ranks, which names the first gradient or option that differs, both ranks and
  // both values. If the list or an option is wrong, throws Error{invalid_argument}.
  Gradients(Group& group, std::span<const Gradient> gradients, const GradientOptions& options = {});
  Gradients(Group& group, std::initializer_list<Gradient> gradients, const GradientOptions& options = {});
  Gradients(Gradients&&) noexcept;
  Gradients& operator=(Gradients&&) noexcept;
  // Blocks until no operation uses the gradients. In the middle of a step it ends this rank's operations. On the other
  // ranks these operations then fail with Error{rank_left}, which names this rank.
  ~Gradients();

  // begin(), ready() and finish() may be called on any thread, but only by one at a time.

  // Begins a step. This rank's gradients will be multiplied by `factor`. Does not block. Throws Error{invalid_argument}
  // if the previous step was not finished.
  void begin(double factor = 1);

  // Announces that a gradient, given by its index in the list, is complete in this pass. After the last pass the
  // program must not use the gradient until finish() returns. Does not block, except once in a step with
  // Combine::weighted, for the sum of the factors. If the gradient was announced more often than there are passes, or
  // if no step has begun, throws Error{invalid_argument} that names the gradient. A step that has begun goes on.
  void ready(std::size_t gradient);

  // Blocks until all gradients are combined. Every rank must call it, also after an error of ready(). Throws the errors
  // of allreduce. If this rank did not announce all gradients (see GradientOptions::Unannounced), the world ends:
  // Error{aborted} on all ranks names the gradients and this rank. In a group of one rank the error is
  // Error{invalid_argument} instead.
  StepStats finish();

  // With error_feedback, returns by index of the gradient the rounding errors of this rank's part of the result. The
  // next step adds these errors. Empty without error_feedback. Save them in checkpoints, like the optimizer's state.
  // They may be changed between finish() and begin(), and are valid as long as this object.
  std::vector<std::span<float>> residuals();

  // For each bucket, in the order of sending: the indices of its gradients. A gradient that is split is in several
  // buckets.
  std::vector<std::vector<std::size_t>> buckets() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace anello
ANELLO_API_END
