// The backend of a group of one rank. No data is sent, so every call is a copy on the device, or a kernel that copies
// and multiplies. NCCL is not called: up to version 2.29.6, its reductions with one rank leave the last elements
// unchanged for some sizes (NCCL's issue 1950). One thread at a time. A failure on the device aborts the world.
#pragma once
#include <memory>
#include <vector>

#include "gpu/collectives.hpp"
#include "gpu/pack_buffer.hpp"

namespace anello::gpu {

class SingleRank : public Collectives {
 public:
  // `kernels`: null if there are none; then calls with factors are not possible (see can()).
  SingleRank(Group group, const Device& device, const AnelloKernelTable* kernels);

  bool can(const Call& call) const { return kernels_ || call.prescale * call.postscale == 1; }

  void carry_out(const Call& call, GpuStream stream) override;
  // Never called: a transfer is refused earlier, because this rank cannot be its own peer.
  void exchange(const ConstTensor& outgoing, int to, const Tensor& incoming, int from, GpuStream stream,
                const Options& options) override;

 private:
  void copy(const ConstTensor& input, const Tensor& output, GpuStream stream);
  void multiply(const Call& call, double factor, GpuStream stream);

  Group group_;
  Device device_;
  std::unique_ptr<PackBuffer> kernels_;
};

}  // namespace anello::gpu
