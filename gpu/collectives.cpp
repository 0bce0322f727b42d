#include "gpu/collectives.hpp"

namespace anello::gpu {
namespace {

ReduceOptions reduce_options(const Options& options) {
  return {.name = options.name, .consistency_token = options.consistency_token};
}
ReduceOptions reduce_options(const PartOptions& options) {
  return {.name = options.name, .counts = options.counts, .consistency_token = options.consistency_token};
}

// A call on one input and one output.
GpuCall call_of(Kind kind, const ConstTensor& input, const Tensor& output, GpuStream stream,
                const ReduceOptions& options, Op op = Op::sum, int root = GpuCall::kNobody) {
  return {.kind = kind, .input = input, .output = output, .stream = stream, .root = root, .op = op, .options = options};
}

}  // namespace

void Collectives::allreduce(ConstTensor input, Tensor output, GpuStream stream, Op op, const ReduceOptions& options) {
  carry_out(call_of(Kind::allreduce, input, output, stream, options, op));
}

void Collectives::allreduce(std::span<const Tensor> list, GpuStream stream, Op op, const ReduceOptions& options) {
  if (!list.empty()) carry_out({.kind = Kind::allreduce, .list = list, .stream = stream, .op = op, .options = options});
}

void Collectives::reduce(ConstTensor input, Tensor output, int root, GpuStream stream, Op op,
                         const ReduceOptions& options) {
  carry_out(call_of(Kind::reduce, input, output, stream, options, op, root));
}

void Collectives::broadcast(std::span<const Tensor> list, int root, GpuStream stream, const Options& options) {
  if (!list.empty())
    carry_out(
        {.kind = Kind::broadcast, .list = list, .stream = stream, .root = root, .options = reduce_options(options)});
}

void Collectives::allgather(ConstTensor input, Tensor output, GpuStream stream, const PartOptions& options) {
  carry_out(call_of(Kind::allgather, input, output, stream, reduce_options(options)));
}

void Collectives::gather(ConstTensor input, Tensor output, int root, GpuStream stream, const PartOptions& options) {
  carry_out(call_of(Kind::gather, input, output, stream, reduce_options(options), Op::sum, root));
}

void Collectives::scatter(ConstTensor input, Tensor output, int root, GpuStream stream, const PartOptions& options) {
  carry_out(call_of(Kind::scatter, input, output, stream, reduce_options(options), Op::sum, root));
}

void Collectives::reduce_scatter(ConstTensor input, Tensor output, GpuStream stream, Op op,
                                 const ReduceOptions& options) {
  carry_out(call_of(Kind::reduce_scatter, input, output, stream, options, op));
}

void Collectives::alltoall(ConstTensor input, Tensor output, GpuStream stream, const Options& options) {
  alltoall(input, output, {}, {}, stream, options);
}

void Collectives::alltoall(ConstTensor input, Tensor output, Counts send_counts, Counts recv_counts, GpuStream stream,
                           const Options& options) {
  GpuCall call = call_of(Kind::alltoall, input, output, stream,
                         reduce_options(PartOptions{options.name, send_counts, options.consistency_token}));
  call.recv_counts = recv_counts;
  carry_out(call);
}

void Collectives::send(ConstTensor tensor, int to, GpuStream stream, const Options& options) {
  exchange(tensor, to, Tensor(nullptr, 0, tensor.dtype), GpuCall::kNobody, stream, options);
}

void Collectives::recv(Tensor tensor, int from, GpuStream stream, const Options& options) {
  exchange(ConstTensor(nullptr, 0, tensor.dtype), GpuCall::kNobody, tensor, from, stream, options);
}

void Collectives::exchange(ConstTensor outgoing, int to, Tensor incoming, int from, GpuStream stream,
                           const Options& options) {
  GpuCall call = call_of(Kind::transfer, outgoing, incoming, stream, reduce_options(options), Op::sum, to);
  call.from = from;
  carry_out(call);
}

}  // namespace anello::gpu
