// The collectives of GpuGroup. Each function checks its arguments like Group, and calls the backend for the memory of
// its tensors.
#include <anello/error.hpp>
#include <anello/gpu.hpp>
#include <array>

#include "gpu/gpu_group.hpp"
#include "ring/group/arguments.hpp"
#include "ring/group/group_impl.hpp"

namespace anello {
namespace {

using gpu::Collectives;
namespace calls = group::calls;

group::RankAndSize rank_and_size_of(const Group& group) {
  return {group.rank(), group.size()};
}

// Waits for `work` after another call has failed, because the caller may free its tensors next. Throws nothing, because
// only the other call's error is reported.
void wait_for_end(const Work& work) noexcept {
  try {
    work.wait();
  } catch (const Error&) {
  }
}

}  // namespace

void GpuGroup::Impl::carry_out(const group::Call& call, GpuStream stream) {
  const std::string_view verb = name(call.kind);
  check_stream(verb, stream);
  // Without this guard, a query about memory would initialize the thread's current device.
  const gpu::DeviceGuard guard(device_);
  if (!in_host_memory(call)) return (can_directly(call) ? directly(stream) : staged(stream)).carry_out(call, stream);
  synchronize(stream);
  group::carry_out(GroupAccess::queue(group_), call);
}

void GpuGroup::allreduce(Tensor inout, GpuStream stream, Op op, const ReduceOptions& options) {
  allreduce(inout, inout, stream, op, options);
}
void GpuGroup::allreduce(ConstTensor input, Tensor output, GpuStream stream, Op op, const ReduceOptions& options) {
  impl_->carry_out(calls::allreduce(input, output, op, options), stream);
}
void GpuGroup::allreduce(std::span<const Tensor> list, GpuStream stream, Op op, const ReduceOptions& options) {
  std::vector<run::Buffer::Piece> pieces;
  impl_->carry_out(calls::allreduce(list, pieces, op, options), stream);
}

void GpuGroup::reduce(Tensor inout, int root, GpuStream stream, Op op, const ReduceOptions& options) {
  reduce(inout, inout, root, stream, op, options);
}
void GpuGroup::reduce(ConstTensor input, Tensor output, int root, GpuStream stream, Op op,
                      const ReduceOptions& options) {
  impl_->carry_out(calls::reduce(rank_and_size_of(group()), input, output, root, op, options), stream);
}

void GpuGroup::broadcast(Tensor tensor, int root, GpuStream stream, const Options& options) {
  broadcast(std::span(&tensor, 1), root, stream, options);
}
void GpuGroup::broadcast(std::span<const Tensor> list, int root, GpuStream stream, const Options& options) {
  std::vector<run::Buffer::Piece> pieces;
  impl_->carry_out(calls::broadcast(rank_and_size_of(group()), list, pieces, root, options), stream);
}

void GpuGroup::allgather(ConstTensor input, Tensor output, GpuStream stream, const PartOptions& options) {
  impl_->carry_out(calls::allgather(rank_and_size_of(group()), input, output, options), stream);
}
void GpuGroup::gather(ConstTensor input, Tensor output, int root, GpuStream stream, const PartOptions& options) {
  impl_->carry_out(calls::gather(rank_and_size_of(group()), input, output, root, options), stream);
}
void GpuGroup::scatter(ConstTensor input, Tensor output, int root, GpuStream stream, const PartOptions& options) {
  impl_->carry_out(calls::scatter(rank_and_size_of(group()), input, output, root, options), stream);
}
void GpuGroup::reduce_scatter(ConstTensor input, Tensor output, GpuStream stream, Op op, const ReduceOptions& options) {
  impl_->carry_out(calls::reduce_scatter(rank_and_size_of(group()), input, output, op, options), stream);
}

void GpuGroup::alltoall(ConstTensor input, Tensor output, GpuStream stream, const Options& options) {
  impl_->carry_out(calls::alltoall(rank_and_size_of(group()), input, output, options), stream);
}
void GpuGroup::alltoall(ConstTensor input, Tensor output, std::span<const std::uint64_t> send_counts,
                        std::span<const std::uint64_t> recv_counts, GpuStream stream, const Options& options) {
  impl_->carry_out(calls::alltoall(rank_and_size_of(group()), input, output, send_counts, recv_counts, options),
                   stream);
}

void GpuGroup::send(ConstTensor tensor, int to, GpuStream stream, const Options& options) {
  calls::transfer(tensor, Tensor(nullptr, 0, tensor.dtype), options);
  check_peer("send", to, rank_and_size_of(group()));
  impl_->transfer(
      "send", std::array<ConstTensor, 1>{tensor}, stream,
      [&](Collectives& gpu) { gpu.send(tensor, to, stream, options); },
      [&](Group& host) { host.send(tensor, to, options); });
}

void GpuGroup::recv(Tensor tensor, int from, GpuStream stream, const Options& options) {
  calls::transfer(ConstTensor(nullptr, 0, tensor.dtype), tensor, options);
  check_peer("recv", from, rank_and_size_of(group()));
  impl_->transfer(
      "recv", std::array<ConstTensor, 1>{tensor}, stream,
      [&](Collectives& gpu) { gpu.recv(tensor, from, stream, options); },
      [&](Group& host) { host.recv(tensor, from, options); });
}

void GpuGroup::exchange(ConstTensor outgoing, int to, Tensor incoming, int from, GpuStream stream,
                        const Options& options) {
  calls::transfer(outgoing, Tensor(nullptr, 0, outgoing.dtype), options);
  calls::transfer(ConstTensor(nullptr, 0, incoming.dtype), incoming, options);
  check_peer("exchange", to, rank_and_size_of(group()));
  check_peer("exchange", from, rank_and_size_of(group()));
  impl_->transfer(
      "exchange", std::array<ConstTensor, 2>{outgoing, incoming}, stream,
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
