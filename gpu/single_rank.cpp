#include "gpu/single_rank.hpp"

#include <anello/error.hpp>

#include "gpu/or_abort.hpp"
#include "ring/base/check.hpp"

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

void SingleRank::multiply(const Call& call, double factor, GpuStream stream) {
  const std::vector<Tensor> from = tensors_of(call.input, call.dtype), to = tensors_of(call.output, call.dtype);
  or_abort(group_, [&] { kernels_->scale(std::vector<ConstTensor>(from.begin(), from.end()), to, factor, stream); });
}

// A list without factors needs no work, because its inputs are its outputs.
void SingleRank::carry_out(const Call& call, GpuStream stream) {
  if (call.kind == Kind::alltoall && !call.counts.empty() && call.counts[0] != call.received[0])
    throw Error(ErrorCode::mismatch, "alltoall: this rank's send count and receive count for itself differ");
  const double factor = call.prescale * call.postscale;
  if (factor != 1)
    multiply(call, factor, stream);
  else if (call.output.list().empty())
    copy(tensor_of(call.input, call.dtype), tensor_of(call.output, call.dtype), stream);
}

void SingleRank::exchange(const ConstTensor&, int, const Tensor&, int, GpuStream, const Options&) {
  ANELLO_CHECK(!"a transfer between two ranks");
}

}  // namespace anello::gpu
