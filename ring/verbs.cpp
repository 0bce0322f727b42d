// What a world can be asked to do.
#include <anello/world.hpp>

#include "ring/arguments.hpp"
#include "ring/world_impl.hpp"

namespace anello {

void World::allreduce(Tensor inout, Op op, const ReduceOptions& options) {
  allreduce(inout, inout, op, options);
}
void World::allreduce(ConstTensor input, Tensor output, Op op, const ReduceOptions& options) {
  impl_->communicator().run(operations::allreduce(input, output, op, options));
}
void World::allreduce(std::span<const Tensor> tensors, Op op, const ReduceOptions& options) {
  std::vector<Buffer::Piece> pieces;
  impl_->communicator().run(operations::allreduce(tensors, pieces, op, options));
}

void World::reduce(Tensor inout, int root, Op op, const ReduceOptions& options) {
  reduce(inout, inout, root, op, options);
}
void World::reduce(ConstTensor input, Tensor output, int root, Op op, const ReduceOptions& options) {
  impl_->communicator().run(operations::reduce(impl_->seat(), input, output, root, op, options));
}

void World::broadcast(Tensor tensor, int root, const Options& options) {
  broadcast({&tensor, 1}, root, options);
}
void World::broadcast(std::span<const Tensor> tensors, int root, const Options& options) {
  std::vector<Buffer::Piece> pieces;
  impl_->communicator().run(operations::broadcast(impl_->seat(), tensors, pieces, root, options));
}

void World::all_gather(ConstTensor input, Tensor output, const PartOptions& options) {
  impl_->communicator().run(operations::all_gather(impl_->seat(), input, output, options));
}
void World::gather(ConstTensor input, Tensor output, int root, const PartOptions& options) {
  impl_->communicator().run(operations::gather(impl_->seat(), input, output, root, options));
}
void World::scatter(ConstTensor input, Tensor output, int root, const PartOptions& options) {
  impl_->communicator().run(operations::scatter(impl_->seat(), input, output, root, options));
}
void World::reduce_scatter(ConstTensor input, Tensor output, Op op, const ReduceOptions& options) {
  impl_->communicator().run(operations::reduce_scatter(impl_->seat(), input, output, op, options));
}

void World::all_to_all(ConstTensor input, Tensor output, const Options& options) {
  impl_->communicator().run(operations::all_to_all(impl_->seat(), input, output, options));
}
void World::all_to_all(ConstTensor input, Tensor output, std::span<const std::uint64_t> send_counts,
                       std::span<const std::uint64_t> recv_counts, const Options& options) {
  const Operation operation = operations::all_to_all(impl_->seat(), input, output, send_counts, recv_counts, options);
  std::vector<std::uint64_t> arriving(send_counts.size());
  impl_->communicator().run(operations::exchange_of_counts(operation, arriving));
  impl_->communicator().run(operation);
}

void World::barrier(const Options& options) {
  impl_->communicator().run(operations::barrier(options));
}

Work World::allreduce_async(Tensor inout, Op op, const ReduceOptions& options) {
  return allreduce_async(inout, inout, op, options);
}
Work World::allreduce_async(ConstTensor input, Tensor output, Op op, const ReduceOptions& options) {
  return impl_->submit(operations::allreduce(input, output, op, options));
}
Work World::allreduce_async(std::span<const Tensor> tensors, Op op, const ReduceOptions& options) {
  std::vector<Buffer::Piece> pieces;
  return impl_->submit(operations::allreduce(tensors, pieces, op, options));
}

Work World::reduce_async(Tensor inout, int root, Op op, const ReduceOptions& options) {
  return reduce_async(inout, inout, root, op, options);
}
Work World::reduce_async(ConstTensor input, Tensor output, int root, Op op, const ReduceOptions& options) {
  return impl_->submit(operations::reduce(impl_->seat(), input, output, root, op, options));
}

Work World::broadcast_async(Tensor tensor, int root, const Options& options) {
  return broadcast_async({&tensor, 1}, root, options);
}
Work World::broadcast_async(std::span<const Tensor> tensors, int root, const Options& options) {
  std::vector<Buffer::Piece> pieces;
  return impl_->submit(operations::broadcast(impl_->seat(), tensors, pieces, root, options));
}

Work World::all_gather_async(ConstTensor input, Tensor output, const PartOptions& options) {
  return impl_->submit(operations::all_gather(impl_->seat(), input, output, options));
}
Work World::gather_async(ConstTensor input, Tensor output, int root, const PartOptions& options) {
  return impl_->submit(operations::gather(impl_->seat(), input, output, root, options));
}
Work World::scatter_async(ConstTensor input, Tensor output, int root, const PartOptions& options) {
  return impl_->submit(operations::scatter(impl_->seat(), input, output, root, options));
}
Work World::reduce_scatter_async(ConstTensor input, Tensor output, Op op, const ReduceOptions& options) {
  return impl_->submit(operations::reduce_scatter(impl_->seat(), input, output, op, options));
}

Work World::all_to_all_async(ConstTensor input, Tensor output, const Options& options) {
  return impl_->submit(operations::all_to_all(impl_->seat(), input, output, options));
}
Work World::all_to_all_async(ConstTensor input, Tensor output, std::span<const std::uint64_t> send_counts,
                             std::span<const std::uint64_t> recv_counts, const Options& options) {
  const Operation operation = operations::all_to_all(impl_->seat(), input, output, send_counts, recv_counts, options);
  return impl_->submit(operations::exchange_of_counts(operation, std::span<std::uint64_t>()), operation);
}

Work World::barrier_async(const Options& options) {
  return impl_->submit(operations::barrier(options));
}

double World::average(double value) {
  allreduce(std::span(&value, 1), Op::average, {.name = "average"});
  return value;
}

}  // namespace anello
