// The collectives of GpuGroup. Each checks its arguments as Group does, and calls the backend for the memory of its
// tensors.
#include <anello/error.hpp>
#include <anello/gpu.hpp>
#include <array>

#include "gpu/gpu_group.hpp"
#include "ring/group/arguments.hpp"

namespace anello {
namespace {

using gpu::Collectives;

group::RankAndSize rank_and_size_of(const Group& group) {
  return {group.rank(), group.size()};
}

std::vector<ConstTensor> read_only(std::span<const Tensor> list) {
  return {list.begin(), list.end()};
}

// Waits after another call has failed, whose error is thrown: the caller may free its tensors afterwards.
void wait_for_end(const Work& work) noexcept {
  try {
    work.wait();
  } catch (const Error&) {
  }
}

}  // namespace

void GpuGroup::allreduce(Tensor inout, GpuStream stream, Op op, const ReduceOptions& options) {
  allreduce(inout, inout, stream, op, options);
}

void GpuGroup::allreduce(ConstTensor input, Tensor output, GpuStream stream, Op op, const ReduceOptions& options) {
  group::calls::allreduce(input, output, op, options);
  impl_->carry_out(
      "allreduce", std::array<ConstTensor, 2>{input, output},
      impl_->can_directly(Kind::allreduce, input.dtype, op, options), stream,
      [&](Collectives& gpu) { gpu.allreduce(input, output, stream, op, options); },
      [&](Group& host) { host.allreduce(input, output, op, options); });
}

void GpuGroup::allreduce(std::span<const Tensor> list, GpuStream stream, Op op, const ReduceOptions& options) {
  impl_->allreduce(list, stream, op, options);
}

void GpuGroup::Impl::allreduce(std::span<const Tensor> list, GpuStream stream, Op op, const ReduceOptions& options) {
  std::vector<run::Buffer::Piece> pieces;
  const DType dtype = group::calls::allreduce(list, pieces, op, options).dtype;
  carry_out(
      "allreduce", read_only(list), can_directly(Kind::allreduce, dtype, op, options), stream,
      [&](Collectives& gpu) { gpu.allreduce(list, stream, op, options); },
      [&](Group& host) { host.allreduce(list, op, options); });
}

void GpuGroup::reduce(Tensor inout, int root, GpuStream stream, Op op, const ReduceOptions& options) {
  reduce(inout, inout, root, stream, op, options);
}

void GpuGroup::reduce(ConstTensor input, Tensor output, int root, GpuStream stream, Op op,
                      const ReduceOptions& options) {
  group::calls::reduce(rank_and_size_of(group()), input, output, root, op, options);
  if (group().rank() != root) output = Tensor(nullptr, 0, input.dtype);
  impl_->carry_out(
      "reduce", std::array<ConstTensor, 2>{input, output}, impl_->can_directly(Kind::reduce, input.dtype, op, options),
      stream, [&](Collectives& gpu) { gpu.reduce(input, output, root, stream, op, options); },
      [&](Group& host) { host.reduce(input, output, root, op, options); });
}

void GpuGroup::broadcast(Tensor tensor, int root, GpuStream stream, const Options& options) {
  broadcast(std::span(&tensor, 1), root, stream, options);
}

void GpuGroup::broadcast(std::span<const Tensor> list, int root, GpuStream stream, const Options& options) {
  std::vector<run::Buffer::Piece> pieces;
  group::calls::broadcast(rank_and_size_of(group()), list, pieces, root, options);
  impl_->carry_out(
      "broadcast", read_only(list), true, stream, [&](Collectives& gpu) { gpu.broadcast(list, root, stream, options); },
      [&](Group& host) { host.broadcast(list, root, options); });
}

void GpuGroup::allgather(ConstTensor input, Tensor output, GpuStream stream, const PartOptions& options) {
  group::calls::allgather(rank_and_size_of(group()), input, output, options);
  impl_->carry_out(
      "allgather", std::array<ConstTensor, 2>{input, output}, true, stream,
      [&](Collectives& gpu) { gpu.allgather(input, output, stream, options); },
      [&](Group& host) { host.allgather(input, output, options); });
}

void GpuGroup::gather(ConstTensor input, Tensor output, int root, GpuStream stream, const PartOptions& options) {
  group::calls::gather(rank_and_size_of(group()), input, output, root, options);
  if (group().rank() != root) output = Tensor(nullptr, 0, input.dtype);
  impl_->carry_out(
      "gather", std::array<ConstTensor, 2>{input, output}, true, stream,
      [&](Collectives& gpu) { gpu.gather(input, output, root, stream, options); },
      [&](Group& host) { host.gather(input, output, root, options); });
}

void GpuGroup::scatter(ConstTensor input, Tensor output, int root, GpuStream stream, const PartOptions& options) {
  group::calls::scatter(rank_and_size_of(group()), input, output, root, options);
  if (group().rank() != root) input = ConstTensor(nullptr, 0, output.dtype);
  impl_->carry_out(
      "scatter", std::array<ConstTensor, 2>{input, output}, true, stream,
      [&](Collectives& gpu) { gpu.scatter(input, output, root, stream, options); },
      [&](Group& host) { host.scatter(input, output, root, options); });
}

void GpuGroup::reduce_scatter(ConstTensor input, Tensor output, GpuStream stream, Op op, const ReduceOptions& options) {
  group::calls::reduce_scatter(rank_and_size_of(group()), input, output, op, options);
  impl_->carry_out(
      "reduce_scatter", std::array<ConstTensor, 2>{input, output},
      impl_->can_directly(Kind::reduce_scatter, input.dtype, op, options), stream,
      [&](Collectives& gpu) { gpu.reduce_scatter(input, output, stream, op, options); },
      [&](Group& host) { host.reduce_scatter(input, output, op, options); });
}

void GpuGroup::alltoall(ConstTensor input, Tensor output, GpuStream stream, const Options& options) {
  group::calls::alltoall(rank_and_size_of(group()), input, output, options);
  impl_->carry_out(
      "alltoall", std::array<ConstTensor, 2>{input, output}, true, stream,
      [&](Collectives& gpu) { gpu.alltoall(input, output, stream, options); },
      [&](Group& host) { host.alltoall(input, output, options); });
}

void GpuGroup::alltoall(ConstTensor input, Tensor output, std::span<const std::uint64_t> send_counts,
                        std::span<const std::uint64_t> recv_counts, GpuStream stream, const Options& options) {
  group::calls::alltoall(rank_and_size_of(group()), input, output, send_counts, recv_counts, options);
  impl_->carry_out(
      "alltoall", std::array<ConstTensor, 2>{input, output}, true, stream,
      [&](Collectives& gpu) { gpu.alltoall(input, output, send_counts, recv_counts, stream, options); },
      [&](Group& host) { host.alltoall(input, output, send_counts, recv_counts, options); });
}

void GpuGroup::send(ConstTensor tensor, int to, GpuStream stream, const Options& options) {
  group::calls::transfer(tensor, Tensor(nullptr, 0, tensor.dtype), options);
  check_peer("send", to, rank_and_size_of(group()));
  impl_->carry_out(
      "send", std::array<ConstTensor, 1>{tensor}, true, stream,
      [&](Collectives& gpu) { gpu.send(tensor, to, stream, options); },
      [&](Group& host) { host.send(tensor, to, options); });
}

void GpuGroup::recv(Tensor tensor, int from, GpuStream stream, const Options& options) {
  group::calls::transfer(ConstTensor(nullptr, 0, tensor.dtype), tensor, options);
  check_peer("recv", from, rank_and_size_of(group()));
  impl_->carry_out(
      "recv", std::array<ConstTensor, 1>{tensor}, true, stream,
      [&](Collectives& gpu) { gpu.recv(tensor, from, stream, options); },
      [&](Group& host) { host.recv(tensor, from, options); });
}

void GpuGroup::exchange(ConstTensor outgoing, int to, Tensor incoming, int from, GpuStream stream,
                        const Options& options) {
  group::calls::transfer(outgoing, Tensor(nullptr, 0, outgoing.dtype), options);
  group::calls::transfer(ConstTensor(nullptr, 0, incoming.dtype), incoming, options);
  check_peer("exchange", to, rank_and_size_of(group()));
  check_peer("exchange", from, rank_and_size_of(group()));
  impl_->carry_out(
      "exchange", std::array<ConstTensor, 2>{outgoing, incoming}, true, stream,
      [&](Collectives& gpu) { gpu.exchange(outgoing, to, incoming, from, stream, options); },
      [&](Group& host) {
        const Work receiving = host.recv_async(incoming, from, options);
        try {
          host.send(outgoing, to, options);
        } catch (...) {
          wait_for_end(receiving);
          throw;
        }
        receiving.wait();
      });
}

}  // namespace anello
