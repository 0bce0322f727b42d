// What each way of moving GPU tensors can do: the verbs of Group, with device memory for tensors and a stream. What was
// queued on the stream before the call is waited for, and what is queued after it finds the result. Whoever calls has
// checked the arguments, and that all tensors are on the group's device.
#pragma once
#include <anello/group.hpp>
#include <span>

namespace anello::gpu {

class Collectives {
 public:
  using Counts = std::span<const std::uint64_t>;
  virtual ~Collectives() = default;

  virtual void allreduce(ConstTensor input, Tensor output, void* stream, Op op, const ReduceOptions& options) = 0;
  virtual void allreduce(std::span<const Tensor> list, void* stream, Op op, const ReduceOptions& options) = 0;
  virtual void reduce(ConstTensor input, Tensor output, int root, void* stream, Op op,
                      const ReduceOptions& options) = 0;
  virtual void broadcast(std::span<const Tensor> list, int root, void* stream, const Options& options) = 0;
  virtual void allgather(ConstTensor input, Tensor output, void* stream, const PartOptions& options) = 0;
  virtual void gather(ConstTensor input, Tensor output, int root, void* stream, const PartOptions& options) = 0;
  virtual void scatter(ConstTensor input, Tensor output, int root, void* stream, const PartOptions& options) = 0;
  virtual void reduce_scatter(ConstTensor input, Tensor output, void* stream, Op op, const ReduceOptions& options) = 0;
  virtual void alltoall(ConstTensor input, Tensor output, void* stream, const Options& options) = 0;
  virtual void alltoall(ConstTensor input, Tensor output, Counts send_counts, Counts recv_counts, void* stream,
                        const Options& options) = 0;
  virtual void send(ConstTensor tensor, int to, void* stream, const Options& options) = 0;
  virtual void recv(Tensor tensor, int from, void* stream, const Options& options) = 0;
};

}  // namespace anello::gpu
