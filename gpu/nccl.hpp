// The backend for ranks that each have their own GPU. Every call queues NCCL's kernels on the stream. NCCL lacks some
// reductions; see can(). One thread at a time. A failure on the device aborts the world, because the other ranks wait
// for this rank.
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
    const AnelloKernelTable* kernels = nullptr;  // needed for sending in 16 bits, and for factors
  };
  // Collective: all ranks of the group construct this. Throws like NcclCommunicator's constructor. `compare`: if true,
  // the group's ranks also compare the arguments of each call. If the arguments differ, the world fails with
  // Error{mismatch} instead of hanging in NCCL.
  Nccl(Group group, const Device& device, const Tables& tables, const NcclCommunicator::Limits& limits, bool compare,
       NcclCommunicator::StartFailure start_failure = NcclCommunicator::StartFailure::ends_world);

  // Makes a backend for a part of this backend's ranks; see NcclCommunicator::split().
  std::unique_ptr<Nccl> split(Group group);

  NcclCommunicator& communicator() { return *communicator_; }

  // True if NCCL has the reduction that this call needs. The result does not depend on the call's tensors, and is the
  // same on all ranks that have the same plugins.
  bool can(const Call& call) const;

  void carry_out(const Call& call, GpuStream stream) override;
  void exchange(const ConstTensor& outgoing, int to, const Tensor& incoming, int from, GpuStream stream,
                const Options& options) override;

 private:
  // The data that this rank exchanges with a peer. A count of 0 means no data in that direction.
  struct Move {
    int peer;
    const void* from;
    std::uint64_t from_count;
    void* to;
    std::uint64_t to_count;
  };

  Nccl(Group group, const Device& device, std::unique_ptr<NcclCommunicator> communicator,
       const AnelloKernelTable* kernels, bool compare);
  using Launch = std::function<int(void* comm)>;  // like NcclCommunicator::Call, but owns the objects that it needs

  template <Kind kind>
  void queue(const Call& call, GpuStream stream);
  void queue_list(const Call& call, GpuStream stream);
  void queue_packed(Signature signature, std::span<const ConstTensor> from, std::span<const Tensor> to,
                    const Call& call, GpuStream stream);
  void compare_counts(const Call& call);
  void queue_both(const NcclCall& sends, const ConstTensor& outgoing, const NcclCall& receives, const Tensor& incoming,
                  GpuStream stream, std::uint64_t token);

  void run(Signature signature, const Call& call, GpuStream stream, NcclCommunicator::Call how);
  void compare(const NcclCall& call, std::uint64_t token, GpuStream stream);
  void announce(const NcclCall& call, std::uint64_t token, GpuStream stream);
  Launch together(Launch calls) const;
  // Queues a reduction of `inputs`, which may be packed copies of the tensors.
  using Reduce = std::function<int(std::span<const void* const> inputs, int reduction, void* comm)>;
  void reduce_by(Signature signature, std::span<const ConstTensor> from, std::span<const Tensor> to, const Call& call,
                 GpuStream stream, const Reduce& reduce);
  Launch scaled(DType dtype, double factor, std::function<int(void* comm, int op)> call) const;
  Launch moving(std::span<const Move> moves, DType dtype, GpuStream stream);

  Group group_;
  Device device_;
  const AnelloNcclTable* table_;
  const AnelloKernelTable* kernels_;
  std::unique_ptr<PackBuffer> pack_buffer_;  // null if there are no kernels
  bool compare_;
  std::uint64_t calls_ = 0;
  std::unique_ptr<NcclCommunicator> communicator_;
};

}  // namespace anello::gpu
