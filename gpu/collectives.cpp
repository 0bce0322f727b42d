#include "gpu/collectives.hpp"

namespace anello::gpu {
namespace {

ReduceOptions reduce_options(const Options& options) {
  return {.name = options.name, .consistency_token = options.consistency_token};
}
ReduceOptions reduce_options(const PartOptions& options) {
  return {.name = options.name, .counts = options.counts, .consistency_token = options.consistency_token};
}

}  // namespace

void Collectives::allreduce(ConstTensor input, Tensor output, GpuStream stream, Op op, const ReduceOptions& options) {
  carry_out(
      {.kind = Kind::allreduce, .input = input, .output = output, .stream = stream, .op = op, .options = options});
}

void Collectives::allreduce(std::span<const Tensor> list, GpuStream stream, Op op, const ReduceOptions& options) {
  if (!list.empty()) carry_out({.kind = Kind::allreduce, .list = list, .stream = stream, .op = op, .options = options});
}

void Collectives::reduce(ConstTensor input, Tensor output, int root, GpuStream stream, Op op,
                         const ReduceOptions& options) {
  carry_out({.kind = Kind::reduce,
             .input = input,
             .output = output,
             .stream = stream,
             .root = root,
             .op = op,
             .options = options});
}

void Collectives::broadcast(std::span<const Tensor> list, int root, GpuStream stream, const Options& options) {
  if (!list.empty())
    carry_out(
        {.kind = Kind::broadcast, .list = list, .stream = stream, .root = root, .options = reduce_options(options)});
}

void Collectives::allgather(ConstTensor input, Tensor output, GpuStream stream, const PartOptions& options) {
  carry_out({.kind = Kind::allgather,
             .input = input,
             .output = output,
             .stream = stream,
             .options = reduce_options(options)});
}

void Collectives::gather(ConstTensor input, Tensor output, int root, GpuStream stream, const PartOptions& options) {
  carry_out({.kind = Kind::gather,
             .input = input,
             .output = output,
             .stream = stream,
             .root = root,
             .options = reduce_options(options)});
}

void Collectives::scatter(ConstTensor input, Tensor output, int root, GpuStream stream, const PartOptions& options) {
  carry_out({.kind = Kind::scatter,
             .input = input,
             .output = output,
             .stream = stream,
             .root = root,
             .options = reduce_options(options)});
}

void Collectives::reduce_scatter(ConstTensor input, Tensor output, GpuStream stream, Op op,
                                 const ReduceOptions& options) {
  carry_out(
      {.kind = Kind::reduce_scatter, .input = input, .output = output, .stream = stream, .op = op, .options = options});
}

void Collectives::alltoall(ConstTensor input, Tensor output, GpuStream stream, const Options& options) {
  alltoall(input, output, {}, {}, stream, options);
}

void Collectives::alltoall(ConstTensor input, Tensor output, Counts send_counts, Counts recv_counts, GpuStream stream,
                           const Options& options) {
  carry_out({.kind = Kind::alltoall,
             .input = input,
             .output = output,
             .stream = stream,
             .options = reduce_options(PartOptions{options.name, send_counts, options.consistency_token}),
             .recv_counts = recv_counts});
}

void Collectives::send(ConstTensor tensor, int to, GpuStream stream, const Options& options) {
  exchange(tensor, to, Tensor(nullptr, 0, tensor.dtype), GpuCall::kNobody, stream, options);
}

void Collectives::recv(Tensor tensor, int from, GpuStream stream, const Options& options) {
  exchange(ConstTensor(nullptr, 0, tensor.dtype), GpuCall::kNobody, tensor, from, stream, options);
}

void Collectives::exchange(ConstTensor outgoing, int to, Tensor incoming, int from, GpuStream stream,
                           const Options& options) {
  carry_out({.kind = Kind::transfer,
             .input = outgoing,
             .output = incoming,
             .stream = stream,
             .root = to,
             .from = from,
             .options = reduce_options(options)});
}

}  // namespace anello::gpu
