// Averages gradients in GPU memory while the backward pass still runs: the GPU version of Gradients. Gradients are sent
// in buckets, on a stream of their own, as soon as the work that makes them is queued. With NCCL the host never waits.
// If NCCL cannot be used, another thread carries the buckets through host memory, and finish() waits for that thread.
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
  // All ranks of the group call this with the same gradients and options. If they differ, Error{mismatch} on all ranks
  // names the first difference, both ranks and both values. `stream`: the stream on which gradients are made. Buckets
  // follow the list from its end to its beginning, as a backward pass does. Options are those of Gradients; weighted,
  // tune_buckets, error_feedback and max_norm throw Error{unsupported}. If neither the options nor ANELLO_BUCKET_BYTES
  // give a bucket size, the size is an eighth of all gradients, but at least 1 and at most 32 MiB. The group must
  // outlive the GpuGradients, but may be moved. Only this thread may use the group. With NCCL, work that makes a
  // gradient must not wait for another collective of this group, because a communicator has one order for all streams.
  GpuGradients(GpuGroup& group, std::span<const Gradient> gradients, GpuStream stream,
               const GradientOptions& options = {});
  GpuGradients(GpuGroup& group, std::initializer_list<Gradient> gradients, GpuStream stream,
               const GradientOptions& options = {});
  GpuGradients(GpuGradients&&) noexcept;
  GpuGradients& operator=(GpuGradients&&) noexcept;
  ~GpuGradients();

  // Like the functions of Gradients. They throw the errors of GpuGroup::allreduce().
  void begin(double factor = 1);
  void ready(std::size_t gradient);
  // With staged buckets, the returned times are those of Gradients. With NCCL, both times are the time that queueing
  // took on the host.
  StepStats finish();

  // For each bucket, in the order of sending: the indices of its gradients in the list.
  std::vector<std::vector<std::size_t>> buckets() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace anello
ANELLO_API_END
