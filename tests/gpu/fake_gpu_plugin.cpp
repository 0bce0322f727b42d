// The GPU made of threads as a plugin, for programs; there is no NCCL in it.
#include "tests/gpu/fake_gpu.hpp"
#include "tests/gpu/fake_nccl.hpp"

const AnelloGpuTable* anello_gpu_table() {
  return &anello::gpu::fake::table();
}

const AnelloNcclTable* anello::gpu::fake::find_nccl(const char** why_not) {
  *why_not = "the fake has none";
  return nullptr;
}
