// Anello on tensors in GPU memory.
#pragma once
#include <anello/gpu.hpp>

#include "bench/ours.hpp"
#include "gpu/device.hpp"

namespace anello::bench {

class OursOnGpu : public Ours {
 public:
  // Collective: all ranks construct this at the same time. Throws the errors of GpuGroup's constructor.
  OursOnGpu(World& world, const Settings& settings, const OurOptions& options);

  nlohmann::ordered_json facts() const override;
  Call collective(Kind kind, ConstTensor input, Tensor output, Op op) override;
  Memory allocate(std::size_t bytes) override;
  bool on_device() const override { return true; }
  void copy(void* to, const void* from, std::size_t bytes) override;

 private:
  template <class Start>
  Call complete(Start start);

  GpuGroup gpus_;
  gpu::Device device_;
  gpu::Stream stream_;
};

}  // namespace anello::bench
