// Sums over the threads of a warp and of a block. The order of the additions is fixed, so that every run has the same
// result.
#pragma once
#include "gpu/kernels/launch.cuh"

namespace {

__device__ double over_warp_sum(double value) {
  for (int step = kWarp / 2; step > 0; step /= 2) value += __shfl_xor_sync(~0U, value, step);
  return value;
}

constexpr int kWarps = kThreads / kWarp;

// Returns the sum over all kThreads threads of a block.
__device__ double over_block_sum(double value) {
  __shared__ double part[kWarps];
  __syncthreads();  // waits until an earlier call has read `part`
  value = over_warp_sum(value);
  if (threadIdx.x % kWarp == 0) part[threadIdx.x / kWarp] = value;
  __syncthreads();
  double sum = 0;
  for (int warp = 0; warp < kWarps; warp++) sum += part[warp];
  return sum;
}

}  // namespace
