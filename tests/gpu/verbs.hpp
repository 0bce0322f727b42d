// A backend with a function for each call, as GpuGroup has. Checks the arguments, but not whether the tensors are on
// the device.
#pragma once
#include <utility>
#include <vector>

#include "gpu/collectives.hpp"
#include "ring/group/arguments.hpp"

namespace anello::gpu {

namespace calls = group::calls;

template <class Backend>
class Verbs : public Backend {
 public:
  template <class... Arguments>
  explicit Verbs(Group group, Arguments&&... arguments)
      : Backend(group, std::forward<Arguments>(arguments)...), self_{group.rank(), group.size()} {}

  void allreduce(ConstTensor input, Tensor output, GpuStream stream, Op op, const ReduceOptions& options) {
    this->carry_out(calls::allreduce(input, output, op, options), stream);
  }
  void allreduce(std::span<const Tensor> list, GpuStream stream, Op op, const ReduceOptions& options) {
    this->carry_out(calls::allreduce(list, pieces_, op, options), stream);
  }
  void reduce(ConstTensor input, Tensor output, int root, GpuStream stream, Op op, const ReduceOptions& options) {
    this->carry_out(calls::reduce(self_, input, output, root, op, options), stream);
  }
  void broadcast(std::span<const Tensor> list, int root, GpuStream stream, const Options& options) {
    this->carry_out(calls::broadcast(self_, list, pieces_, root, options), stream);
  }
  void allgather(ConstTensor input, Tensor output, GpuStream stream, const PartOptions& options) {
    this->carry_out(calls::allgather(self_, input, output, options), stream);
  }
  void gather(ConstTensor input, Tensor output, int root, GpuStream stream, const PartOptions& options) {
    this->carry_out(calls::gather(self_, input, output, root, options), stream);
  }
  void scatter(ConstTensor input, Tensor output, int root, GpuStream stream, const PartOptions& options) {
    this->carry_out(calls::scatter(self_, input, output, root, options), stream);
  }
  void reduce_scatter(ConstTensor input, Tensor output, GpuStream stream, Op op, const ReduceOptions& options) {
    this->carry_out(calls::reduce_scatter(self_, input, output, op, options), stream);
  }
  void alltoall(ConstTensor input, Tensor output, GpuStream stream, const Options& options) {
    this->carry_out(calls::alltoall(self_, input, output, options), stream);
  }
  void alltoall(ConstTensor input, Tensor output, std::span<const std::uint64_t> send_counts,
                std::span<const std::uint64_t> recv_counts, GpuStream stream, const Options& options) {
    this->carry_out(calls::alltoall(self_, input, output, send_counts, recv_counts, options), stream);
  }

 private:
  group::RankAndSize self_;
  std::vector<run::Buffer::Piece> pieces_;
};

}  // namespace anello::gpu
