// Gradients in GPU memory, averaged while the backward pass still runs: what Gradients does for host memory. They
// travel in buckets, on a stream of their own, as soon as the work that makes them is queued. With NCCL the host waits
// for nothing. Where NCCL cannot be used, another thread carries the buckets through host memory, and finish() waits
// for it.
//
//   anello::GpuGradients gradients(gpus, {{"weight", weight_gradient}, {"bias", bias_gradient}}, stream);  // once
//   gradients.begin();                                                                                     // each step
//   // backward on the stream: gradients.ready(1); ... gradients.ready(0);   when the last kernel of each is queued
//   gradients.finish();                                // work queued on the stream from now on sees the averages
#pragma once
#include <anello/export.h>
#include <anello/gpu.hpp>
#include <anello/gradients.hpp>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

ANELLO_API_BEGIN
namespace anello {

class GpuGradients {
 public:
  // All ranks of the group call, with the same gradients and options: Error{mismatch} on all of them names the first
  // that differs, both ranks and both values. `stream` is the stream on which gradients are made. Buckets follow the
  // list from its end to its beginning, as a backward pass does. Options are those of Gradients except weighted,
  // tune_buckets, error_feedback and max_norm, which are Error{unsupported}. A bucket size that is given neither here
  // nor by ANELLO_BUCKET_BYTES is an eighth of all gradients, from 1 to 32 MiB. The group must outlive the
  // GpuGradients, but may be moved, and only this thread may use it. With NCCL, work that waits for another collective
  // of this group must not keep a gradient from being made: a communicator has one order for all streams.
  GpuGradients(GpuGroup& group, std::span<const Gradient> gradients, GpuStream stream,
               const GradientOptions& options = {});
  GpuGradients(GpuGroup& group, std::initializer_list<Gradient> gradients, GpuStream stream,
               const GradientOptions& options = {});
  GpuGradients(GpuGradients&&) noexcept;
  GpuGradients& operator=(GpuGradients&&) noexcept;
  ~GpuGradients();

  // As those of Gradients. Errors as of GpuGroup::allreduce.
  void begin(double factor = 1);
  void ready(std::size_t gradient);
  // If the buckets are staged, the times are those of Gradients; with NCCL, both are the time that queueing took on the
  // host.
  StepStats finish();

  // The gradients in each bucket, by their place in the list, in the order in which they travel.
  std::vector<std::vector<std::size_t>> buckets() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace anello
ANELLO_API_END
