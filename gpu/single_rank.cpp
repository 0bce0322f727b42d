#include "gpu/single_rank.hpp"

#include <anello/error.hpp>

#include "gpu/or_abort.hpp"

namespace anello::gpu {

SingleRank::SingleRank(Group group, const Device& device, const AnelloKernelTable* kernels)
    : group_(std::move(group)),
      device_(device),
      kernels_(kernels ? std::make_unique<PackBuffer>(device, *kernels) : nullptr) {}

void SingleRank::copy(const ConstTensor& input, const Tensor& output, GpuStream stream) {
  if (input.data == output.data || output.count == 0) return;
  or_abort(group_, [&] {
    const DeviceGuard guard(device_);
    gpu::copy(device_, output.data, input.data, output.bytes(), stream);
  });
}

void SingleRank::multiply(std::span<const ConstTensor> from, std::span<const Tensor> to, const ReduceOptions& options,
                          GpuStream stream) {
  if (const double factor = options.prescale * options.postscale; factor != 1)
    return or_abort(group_, [&] { kernels_->scale(from, to, factor, stream); });
  for (std::size_t i = 0; i < to.size(); i++) copy(from[i], to[i], stream);
}

void SingleRank::allreduce(ConstTensor input, Tensor output, GpuStream stream, Op, const ReduceOptions& options) {
  multiply(std::span(&input, 1), std::span(&output, 1), options, stream);
}

void SingleRank::allreduce(std::span<const Tensor> list, GpuStream stream, Op, const ReduceOptions& options) {
  if (options.prescale * options.postscale != 1)
    multiply(std::vector<ConstTensor>(list.begin(), list.end()), list, options, stream);
}

void SingleRank::reduce(ConstTensor input, Tensor output, int, GpuStream stream, Op op, const ReduceOptions& options) {
  allreduce(input, output, stream, op, options);
}

void SingleRank::broadcast(std::span<const Tensor>, int, GpuStream, const Options&) {}

void SingleRank::allgather(ConstTensor input, Tensor output, GpuStream stream, const PartOptions&) {
  copy(input, output, stream);
}

void SingleRank::gather(ConstTensor input, Tensor output, int, GpuStream stream, const PartOptions&) {
  copy(input, output, stream);
}

void SingleRank::scatter(ConstTensor input, Tensor output, int, GpuStream stream, const PartOptions&) {
  copy(input, output, stream);
}

void SingleRank::reduce_scatter(ConstTensor input, Tensor output, GpuStream stream, Op op,
                                const ReduceOptions& options) {
  allreduce(input, output, stream, op, options);
}

void SingleRank::alltoall(ConstTensor input, Tensor output, GpuStream stream, const Options&) {
  copy(input, output, stream);
}

// Throws if the rank's two counts for itself differ.
void SingleRank::alltoall(ConstTensor input, Tensor output, Counts send_counts, Counts recv_counts, GpuStream stream,
                          const Options&) {
  if (send_counts[0] != recv_counts[0])
    throw Error(ErrorCode::mismatch, "alltoall: this rank sends itself another count than it expects");
  copy(input, output, stream);
}

void SingleRank::send(ConstTensor, int, GpuStream, const Options&) {}
void SingleRank::recv(Tensor, int, GpuStream, const Options&) {}
void SingleRank::exchange(ConstTensor, int, Tensor, int, GpuStream, const Options&) {}

}  // namespace anello::gpu
