// The backend for ranks that each have their own GPU: every call queues NCCL's kernels on the stream. NCCL does not
// have all reductions; see can(). One thread at a time. A failure on the device aborts the world, because the other
// ranks wait for this one.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "gpu/collectives.hpp"
#include "gpu/nccl_communicator.hpp"
#include "gpu/pack_buffer.hpp"
#include "ring/base/signature.hpp"

namespace anello::gpu {

class Nccl : public Collectives {
 public:
  struct Tables {
    const AnelloNcclTable* nccl;
    const AnelloKernelTable* kernels = nullptr;  // for 16 bits on the wire, and for factors
  };
  // All ranks of the group call this. Throws like NcclCommunicator's constructor. `compare`: the group's ranks also
  // compare the arguments of each call; if they differ, the world fails with Error{mismatch} instead of hanging in
  // NCCL.
  Nccl(Group group, const Device& device, const Tables& tables, const NcclCommunicator::Limits& limits, bool compare,
       NcclCommunicator::StartFailure start_failure = NcclCommunicator::StartFailure::ends_world);

  // See NcclCommunicator::split().
  std::unique_ptr<Nccl> split(Group group);

  NcclCommunicator& communicator() { return *communicator_; }

  // Whether NCCL has this reduction. The same on all ranks that have the same plugins.
  bool can(Kind kind, DType dtype, Op op, const ReduceOptions& options) const;

  void carry_out(const GpuCall& call) override;

 private:
  // The data that this rank sends to a peer and receives from it. Count 0: nothing.
  struct Move {
    int peer;
    const void* from;
    std::uint64_t from_count;
    void* to;
    std::uint64_t to_count;
  };

  Nccl(Group group, const Device& device, std::unique_ptr<NcclCommunicator> communicator,
       const AnelloKernelTable* kernels, bool compare);
  void queue_allreduce(const GpuCall& call);
  void queue_allreduce_packed(Signature signature, std::span<const ConstTensor> from, std::span<const Tensor> to,
                              const GpuCall& call);
  void queue_allreduce_all(std::span<const ConstTensor> from, std::span<const Tensor> to, const GpuCall& call);
  void queue_reduce(const GpuCall& call);
  void queue_broadcast(const GpuCall& call);
  void queue_allgather(const GpuCall& call);
  void queue_gather(const GpuCall& call);
  void queue_scatter(const GpuCall& call);
  void queue_reduce_scatter(const GpuCall& call);
  void queue_alltoall(const GpuCall& call);
  void compare_counts(const GpuCall& call);
  void queue_transfer(const GpuCall& call);
  void queue_exchange(const GpuCall& call, const NcclCall& sends, const NcclCall& receives);
  using Call = std::function<int(void* comm)>;  // like NcclCommunicator's, but owns what it needs

  void run(Signature signature, const GpuCall& call, NcclCommunicator::Call how);
  void compare(const NcclCall& call, std::uint64_t token, GpuStream stream);
  void announce(const NcclCall& call, std::uint64_t token, GpuStream stream);
  Call together(Call calls) const;
  // Queues a reduction of `inputs`, which may be packed copies of the tensors.
  using Reduce = std::function<int(std::span<const void* const> inputs, int reduction, void* comm)>;
  void reduce_by(Signature signature, std::span<const ConstTensor> from, std::span<const Tensor> to,
                 const GpuCall& call, const Reduce& reduce);
  Call scaled(DType dtype, double factor, std::function<int(void* comm, int op)> call) const;
  Call moving(std::span<const Move> moves, DType dtype, GpuStream stream);

  Group group_;
  Device device_;
  const AnelloNcclTable* table_;
  const AnelloKernelTable* kernels_;
  std::unique_ptr<PackBuffer> pack_buffer_;  // null without kernels
  bool compare_;
  std::uint64_t calls_ = 0;
  std::unique_ptr<NcclCommunicator> communicator_;
};

}  // namespace anello::gpu
