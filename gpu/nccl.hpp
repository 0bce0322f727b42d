// Collectives on GPU memory by NCCL: each call queues NCCL's own kernels on the stream. What one of these calls cannot
// do is told by can().
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "gpu/collectives.hpp"
#include "gpu/communicator.hpp"
#include "ring/base/signature.hpp"

namespace anello::gpu {

class Nccl : public Collectives {
 public:
  // With `compare` the arguments of each call are compared by the group's ranks, beside it: where they are not the same
  // the world ends with Error{mismatch}, rather than that NCCL waits for ever.
  Nccl(Group group, const Device& device, const AnelloNcclTable& table, const Communicator::Limits& limits,
       bool compare);

  std::unique_ptr<Nccl> split(Group group, int colour, int key);

  bool can(DType dtype, Op op, const ReduceOptions& options) const;

  void allreduce(ConstTensor input, Tensor output, void* stream, Op op, const ReduceOptions& options) override;
  void allreduce(std::span<const Tensor> list, void* stream, Op op, const ReduceOptions& options) override;
  void reduce(ConstTensor input, Tensor output, int root, void* stream, Op op, const ReduceOptions& options) override;
  void broadcast(std::span<const Tensor> list, int root, void* stream, const Options& options) override;
  void all_gather(ConstTensor input, Tensor output, void* stream, const PartOptions& options) override;
  void gather(ConstTensor input, Tensor output, int root, void* stream, const PartOptions& options) override;
  void scatter(ConstTensor input, Tensor output, int root, void* stream, const PartOptions& options) override;
  void reduce_scatter(ConstTensor input, Tensor output, void* stream, Op op, const ReduceOptions& options) override;
  void all_to_all(ConstTensor input, Tensor output, void* stream, const Options& options) override;
  void all_to_all(ConstTensor input, Tensor output, Counts send_counts, Counts recv_counts, void* stream,
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

  Nccl(Group group, const Device& device, std::unique_ptr<Communicator> communicator, bool compare);
  void run(Signature signature, std::string_view name, std::uint64_t agree, void* stream,
           const Communicator::Call& call);
  void compare(const Signature& signature, const std::string& what, std::uint64_t agree);
  Communicator::Call together(Communicator::Call calls) const;
  Communicator::Call reducing(DType dtype, Op op, const ReduceOptions& options,
                              std::function<int(void* comm, int op)> call) const;
  Communicator::Call moving(std::span<const Move> moves, DType dtype, void* stream) const;

  Group group_;
  Device device_;
  const AnelloNcclTable* table_;
  bool compare_;
  std::uint64_t calls_ = 0;
  std::unique_ptr<Communicator> communicator_;
};

}  // namespace anello::gpu
