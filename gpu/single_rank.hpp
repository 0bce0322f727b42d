// The backend of a group of one rank: nothing is sent, so every call is a copy on the device, or a kernel that copies
// and multiplies. NCCL is not called: up to version 2.29.6, its reductions of one rank leave the last elements of some
// sizes unchanged (NCCL's issue 1950). One thread at a time. A failure on the device aborts the world.
#pragma once
#include <memory>
#include <vector>

#include "gpu/collectives.hpp"
#include "gpu/pack_buffer.hpp"

namespace anello::gpu {

class SingleRank : public Collectives {
 public:
  // `kernels` null: no factors are possible; see can().
  SingleRank(Group group, const Device& device, const AnelloKernelTable* kernels);

  bool can(const ReduceOptions& options) const { return kernels_ || options.prescale * options.postscale == 1; }

  void allreduce(ConstTensor input, Tensor output, GpuStream stream, Op op, const ReduceOptions& options) override;
  void allreduce(std::span<const Tensor> list, GpuStream stream, Op op, const ReduceOptions& options) override;
  void reduce(ConstTensor input, Tensor output, int root, GpuStream stream, Op op,
              const ReduceOptions& options) override;
  void broadcast(std::span<const Tensor> list, int root, GpuStream stream, const Options& options) override;
  void allgather(ConstTensor input, Tensor output, GpuStream stream, const PartOptions& options) override;
  void gather(ConstTensor input, Tensor output, int root, GpuStream stream, const PartOptions& options) override;
  void scatter(ConstTensor input, Tensor output, int root, GpuStream stream, const PartOptions& options) override;
  void reduce_scatter(ConstTensor input, Tensor output, GpuStream stream, Op op, const ReduceOptions& options) override;
  void alltoall(ConstTensor input, Tensor output, GpuStream stream, const Options& options) override;
  void alltoall(ConstTensor input, Tensor output, Counts send_counts, Counts recv_counts, GpuStream stream,
                const Options& options) override;
  // The caller must have refused these, because a rank cannot be its own peer.
  void send(ConstTensor tensor, int to, GpuStream stream, const Options& options) override;
  void recv(Tensor tensor, int from, GpuStream stream, const Options& options) override;
  void exchange(ConstTensor outgoing, int to, Tensor incoming, int from, GpuStream stream,
                const Options& options) override;

 private:
  void copy(const ConstTensor& input, const Tensor& output, GpuStream stream);
  void multiply(std::span<const ConstTensor> from, std::span<const Tensor> to, const ReduceOptions& options,
                GpuStream stream);

  Group group_;
  Device device_;
  std::unique_ptr<PackBuffer> kernels_;
};

}  // namespace anello::gpu
