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

void SingleRank::multiply(const GpuCall& call, double factor) {
  const std::vector<ConstTensor> list(call.list.begin(), call.list.end());
  or_abort(group_, [&] {
    if (list.empty())
      kernels_->scale(std::span(&call.input, 1), std::span(&call.output, 1), factor, call.stream);
    else
      kernels_->scale(list, call.list, factor, call.stream);
  });
}

void SingleRank::carry_out(const GpuCall& call) {
  const GpuCall::Counts sends = call.options.counts, receives = call.recv_counts;
  if (call.kind == Kind::alltoall && !sends.empty() && sends[0] != receives[0])
    throw Error(ErrorCode::mismatch, "alltoall: this rank sends itself another count than it expects");
  const double factor = facts_of(call.kind).reduces ? call.options.prescale * call.options.postscale : 1;
  if (factor != 1)
    multiply(call, factor);
  else if (call.list.empty())
    copy(call.input, call.output, call.stream);
}

}  // namespace anello::gpu
