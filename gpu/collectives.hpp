// The interface of a backend that moves GPU tensors: the collectives of Group, with tensors in device memory and a
// stream. A collective waits for the work queued on the stream before it; work queued later sees the result. The caller
// must have checked the arguments, and that all tensors are on the group's device. One thread at a time.
#pragma once
#include <anello/gpu.hpp>
#include <span>

#include "ring/base/collective.hpp"

namespace anello::gpu {

// One call with its arguments, which it borrows.
struct GpuCall {
  using Counts = std::span<const std::uint64_t>;
  static constexpr int kNobody = -1;

  Kind kind = Kind::barrier;
  ConstTensor input{nullptr, 0, DType::u8};
  Tensor output{nullptr, 0, DType::u8};
  std::span<const Tensor> list = {};  // allreduce, broadcast: tensors in place of input and output
  GpuStream stream = nullptr;
  int root = kNobody;  // a root, or the rank that a transfer sends `input` to
  int from = kNobody;  // a transfer: the rank that sends `output`
  Op op = Op::sum;
  ReduceOptions options = {};  // `counts` also of other operations with unequal parts, and alltoall's send counts
  Counts recv_counts = {};     // alltoall

  Options common_options() const { return {options.name, options.consistency_token}; }
};

class Collectives {
 public:
  using Counts = GpuCall::Counts;
  virtual ~Collectives() = default;

  virtual void carry_out(const GpuCall& call) = 0;

  void allreduce(ConstTensor input, Tensor output, GpuStream stream, Op op, const ReduceOptions& options);
  void allreduce(std::span<const Tensor> list, GpuStream stream, Op op, const ReduceOptions& options);
  void reduce(ConstTensor input, Tensor output, int root, GpuStream stream, Op op, const ReduceOptions& options);
  void broadcast(std::span<const Tensor> list, int root, GpuStream stream, const Options& options);
  void allgather(ConstTensor input, Tensor output, GpuStream stream, const PartOptions& options);
  void gather(ConstTensor input, Tensor output, int root, GpuStream stream, const PartOptions& options);
  void scatter(ConstTensor input, Tensor output, int root, GpuStream stream, const PartOptions& options);
  void reduce_scatter(ConstTensor input, Tensor output, GpuStream stream, Op op, const ReduceOptions& options);
  void alltoall(ConstTensor input, Tensor output, GpuStream stream, const Options& options);
  void alltoall(ConstTensor input, Tensor output, Counts send_counts, Counts recv_counts, GpuStream stream,
                const Options& options);
  void send(ConstTensor tensor, int to, GpuStream stream, const Options& options);
  void recv(Tensor tensor, int from, GpuStream stream, const Options& options);
  void exchange(ConstTensor outgoing, int to, Tensor incoming, int from, GpuStream stream, const Options& options);
};

}  // namespace anello::gpu
