// The fake GPU as a plugin, for programs. It has no NCCL.
#include "tests/gpu/fake_gpu.hpp"
#include "tests/gpu/fake_nccl.hpp"

const AnelloGpuTable* anello_gpu_table() {
  return &anello::gpu::fake::table();
}

const AnelloNcclTable* anello::gpu::fake::find_nccl(const char** why_not) {
  *why_not = "the fake has none";
  return nullptr;
}
