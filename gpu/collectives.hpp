// The interface of a backend that moves GPU tensors: the collectives of Group, with tensors in device memory and a
// stream. A collective waits for the work queued on the stream before it; work queued later sees the result. The caller
// must have checked the arguments, and that all tensors are on the group's device. One thread at a time.
#pragma once
#include <anello/gpu.hpp>
#include <span>

namespace anello::gpu {

class Collectives {
 public:
  using Counts = std::span<const std::uint64_t>;
  virtual ~Collectives() = default;

  virtual void allreduce(ConstTensor input, Tensor output, GpuStream stream, Op op, const ReduceOptions& options) = 0;
  virtual void allreduce(std::span<const Tensor> list, GpuStream stream, Op op, const ReduceOptions& options) = 0;
  virtual void reduce(ConstTensor input, Tensor output, int root, GpuStream stream, Op op,
                      const ReduceOptions& options) = 0;
  virtual void broadcast(std::span<const Tensor> list, int root, GpuStream stream, const Options& options) = 0;
  virtual void allgather(ConstTensor input, Tensor output, GpuStream stream, const PartOptions& options) = 0;
  virtual void gather(ConstTensor input, Tensor output, int root, GpuStream stream, const PartOptions& options) = 0;
  virtual void scatter(ConstTensor input, Tensor output, int root, GpuStream stream, const PartOptions& options) = 0;
  virtual void reduce_scatter(ConstTensor input, Tensor output, GpuStream stream, Op op,
                              const ReduceOptions& options) = 0;
  virtual void alltoall(ConstTensor input, Tensor output, GpuStream stream, const Options& options) = 0;
  virtual void alltoall(ConstTensor input, Tensor output, Counts send_counts, Counts recv_counts, GpuStream stream,
                        const Options& options) = 0;
  virtual void send(ConstTensor tensor, int to, GpuStream stream, const Options& options) = 0;
  virtual void recv(Tensor tensor, int from, GpuStream stream, const Options& options) = 0;
  virtual void exchange(ConstTensor outgoing, int to, Tensor incoming, int from, GpuStream stream,
                        const Options& options) = 0;
};

}  // namespace anello::gpu
