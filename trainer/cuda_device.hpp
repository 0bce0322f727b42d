// Training on a GPU: this rank's, by its number on the host, through the plugins for devices and kernels.
#pragma once
#include "trainer/device.hpp"

namespace anello::trainer {

// All ranks call. The world outlives it. Throws Error{unsupported} on all ranks, as GpuGroup's constructor, and if one
// of them has no kernels.
std::unique_ptr<Device> make_cuda_device(World& world);

}  // namespace anello::trainer
