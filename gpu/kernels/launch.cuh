// The launch of kernels, and the way in which their threads walk through an array.
#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "gpu/kernels/kernel_table.h"

// Defined in cast.cu and cross_entropy.cu, and described in kernel_table.h.
int anello_cast(const AnelloPart* parts, std::size_t part_count, int from_type, int to_type, double factor,
                cudaStream_t stream);
int anello_cross_entropy(const float* scores, const std::uint8_t* labels, float* gradient, AnelloScore* score,
                         std::size_t rows, std::size_t columns, cudaStream_t stream);

namespace {

constexpr int kThreads = 256, kWarp = 32, kMaxBlocks = 4096;

inline int blocks_for(std::size_t items) {
  return static_cast<int>(std::min<std::size_t>((items + kThreads - 1) / kThreads, kMaxBlocks));
}
inline int launched() {
  return static_cast<int>(cudaGetLastError());
}

inline __device__ std::size_t first() {
  return blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x;
}
inline __device__ std::size_t stride() {
  return gridDim.x * static_cast<std::size_t>(blockDim.x);
}

}  // namespace
