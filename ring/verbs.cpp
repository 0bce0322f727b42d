// What a world can be asked to do.
#include <anello/world.hpp>

#include "ring/arguments.hpp"
#include "ring/world_impl.hpp"

namespace anello {

void World::allreduce(Tensor inout, Op op, const ReduceOptions& options) {
  allreduce(inout, inout, op, options);
}
void World::allreduce(ConstTensor input, Tensor output, Op op, const ReduceOptions& options) {
  impl_->run(operations::allreduce(input, output, op, options));
}
void World::allreduce(std::span<const Tensor> tensors, Op op, const ReduceOptions& options) {
  std::vector<Buffer::Piece> pieces;
  impl_->run(operations::allreduce(tensors, pieces, op, options));
}

void World::reduce(Tensor inout, int root, Op op, const ReduceOptions& options) {
  reduce(inout, inout, root, op, options);
}
void World::reduce(ConstTensor input, Tensor output, int root, Op op, const ReduceOptions& options) {
  impl_->run(operations::reduce(impl_->seat(), input, output, root, op, options));
}

void World::broadcast(Tensor tensor, int root, const Options& options) {
  broadcast({&tensor, 1}, root, options);
}
void World::broadcast(std::span<const Tensor> tensors, int root, const Options& options) {
  std::vector<Buffer::Piece> pieces;
  impl_->run(operations::broadcast(impl_->seat(), tensors, pieces, root, options));
}

void World::all_gather(ConstTensor input, Tensor output, const PartOptions& options) {
  impl_->run(operations::all_gather(impl_->seat(), input, output, options));
}
void World::gather(ConstTensor input, Tensor output, int root, const PartOptions& options) {
  impl_->run(operations::gather(impl_->seat(), input, output, root, options));
}
void World::scatter(ConstTensor input, Tensor output, int root, const PartOptions& options) {
  impl_->run(operations::scatter(impl_->seat(), input, output, root, options));
}
void World::reduce_scatter(ConstTensor input, Tensor output, Op op, const ReduceOptions& options) {
  impl_->run(operations::reduce_scatter(impl_->seat(), input, output, op, options));
}

void World::all_to_all(ConstTensor input, Tensor output, const Options& options) {
  impl_->run(operations::all_to_all(impl_->seat(), input, output, options));
}
void World::all_to_all(ConstTensor input, Tensor output, std::span<const std::uint64_t> send_counts,
                       std::span<const std::uint64_t> recv_counts, const Options& options) {
  const Operation operation = operations::all_to_all(impl_->seat(), input, output, send_counts, recv_counts, options);
  std::vector<std::uint64_t> arriving(send_counts.size());
  impl_->run(operations::exchange_of_counts(operation, arriving));
  impl_->run(operation);
}

void World::barrier(const Options& options) {
  impl_->run(operations::barrier(options));
}

double World::average(double value) {
  allreduce(std::span(&value, 1), Op::average, {.name = "average"});
  return value;
}

}  // namespace anello
