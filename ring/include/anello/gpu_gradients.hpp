// Gradients in GPU memory, averaged while the backward pass still runs: what Gradients does for the host's memory. They
// travel in buckets, on a stream of their own, as soon as what makes them is queued. With NCCL nothing waits on the
// host; where NCCL cannot, a thread of its own carries them through the host's memory, and finish() waits for it.
//
//   anello::GpuGradients gradients(gpus, {{"weight", weight_gradient}, {"bias", bias_gradient}}, stream);   // once
//   gradients.begin();                                                                                      // each
//   step
//   ... backward on the stream: gradients.ready(1); ... gradients.ready(0);   when the last kernel is queued
//   gradients.finish();                            // what is queued on the stream from now on finds the averages
#pragma once
#include <anello/export.h>
#include <anello/gpu.hpp>
#include <anello/gradients.hpp>
#include <memory>
#include <span>
#include <vector>

ANELLO_API_BEGIN
namespace anello {

class GpuGradients {
 public:
  // All ranks of the group call, with the same gradients, or else Error{mismatch}. `stream` is the one that gradients
  // are made on. Buckets follow the list from its end to its beginning, as a backward pass does. Of the options it has
  // combine (but not weighted), bucket_bytes, wire and passes; Error{unsupported} for the others. The group must
  // outlive it, and is not to be used by another thread meanwhile.
  GpuGradients(GpuGroup& group, std::span<const Gradient> gradients, void* stream, const GradientOptions& options = {});
  GpuGradients(GpuGradients&&) noexcept;
  GpuGradients& operator=(GpuGradients&&) noexcept;
  ~GpuGradients();

  // As of Gradients. Errors as of GpuGroup::allreduce.
  void begin(double factor = 1);
  void ready(std::size_t gradient);
  // Gradients that were never announced count as zero. Staged, its times are those of Gradients' step; with NCCL, what
  // queueing took on the host.
  Gradients::Step finish();

  std::vector<std::vector<std::size_t>> buckets() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace anello
ANELLO_API_END
