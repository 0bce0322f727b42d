// Collectives on GPU memory by NCCL: each call queues NCCL's own kernels on the stream. What reductions cannot be had
// is told by can(). A device that fails ends the world, since the others wait for this rank.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "gpu/collectives.hpp"
#include "gpu/communicator.hpp"
#include "gpu/pack_buffer.hpp"
#include "ring/base/signature.hpp"

namespace anello::gpu {

class Nccl : public Collectives {
 public:
  // Without kernels nothing travels in 16 bits.
  struct Tables {
    const AnelloNcclTable* nccl;
    const AnelloKernelTable* kernels = nullptr;
  };
  // With `compare` the arguments of each call are compared by the group's ranks, beside it: where they are not the same
  // the world ends with Error{mismatch}, rather than that NCCL waits for ever.
  Nccl(Group group, const Device& device, const Tables& tables, const Communicator::Limits& limits, bool compare);

  std::unique_ptr<Nccl> split(Group group);

  bool can(Kind kind, DType dtype, Op op, const ReduceOptions& options) const;

  void allreduce(ConstTensor input, Tensor output, void* stream, Op op, const ReduceOptions& options) override;
  void allreduce(std::span<const Tensor> list, void* stream, Op op, const ReduceOptions& options) override;
  void reduce(ConstTensor input, Tensor output, int root, void* stream, Op op, const ReduceOptions& options) override;
  void broadcast(std::span<const Tensor> list, int root, void* stream, const Options& options) override;
  void allgather(ConstTensor input, Tensor output, void* stream, const PartOptions& options) override;
  void gather(ConstTensor input, Tensor output, int root, void* stream, const PartOptions& options) override;
  void scatter(ConstTensor input, Tensor output, int root, void* stream, const PartOptions& options) override;
  void reduce_scatter(ConstTensor input, Tensor output, void* stream, Op op, const ReduceOptions& options) override;
  void alltoall(ConstTensor input, Tensor output, void* stream, const Options& options) override;
  void alltoall(ConstTensor input, Tensor output, Counts send_counts, Counts recv_counts, void* stream,
                const Options& options) override;
  void send(ConstTensor tensor, int to, void* stream, const Options& options) override;
  void recv(Tensor tensor, int from, void* stream, const Options& options) override;

 private:
  // What goes from this rank to a peer and what comes from it: nothing, where it is null.
  struct Move {
    int peer;
    const void* from;
    std::uint64_t from_count;
    void* to;
    std::uint64_t to_count;
  };

  Nccl(Group group, const Device& device, std::unique_ptr<Communicator> communicator, const AnelloKernelTable* kernels,
       bool compare);
  void allreduce_packed(Signature signature, std::span<const ConstTensor> from, std::span<const Tensor> to,
                        void* stream, const ReduceOptions& options);
  void allreduce_all(std::span<const ConstTensor> from, std::span<const Tensor> to, void* stream, Op op,
                     const ReduceOptions& options);
  void run(Signature signature, std::string_view name, std::uint64_t token, void* stream,
           const Communicator::Call& call);
  void compare(const Signature& signature, const std::string& what, std::uint64_t token);
  Communicator::Call together(Communicator::Call calls) const;
  // Queues a reduction of inputs, which may lie elsewhere than the tensors.
  using Reduce = std::function<int(std::span<const void* const> inputs, int reduction, void* comm)>;
  void reduce_by(Signature signature, std::span<const ConstTensor> from, std::span<const Tensor> to, void* stream,
                 const ReduceOptions& options, const Reduce& call);
  Communicator::Call scaled(const Signature& signature, const ReduceOptions& options,
                            std::function<int(void* comm, int op)> call) const;
  Communicator::Call moving(std::span<const Move> moves, DType dtype, void* stream);

  Group group_;
  Device device_;
  const AnelloNcclTable* table_;
  const AnelloKernelTable* kernels_;
  std::unique_ptr<PackBuffer> wire_;  // if there are kernels
  bool compare_;
  std::uint64_t calls_ = 0;
  std::unique_ptr<Communicator> communicator_;
};

}  // namespace anello::gpu
