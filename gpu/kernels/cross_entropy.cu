// The loss of a batch and its gradient: softmax and cross-entropy of each row.
#include <cuda_runtime.h>

#include <cstdint>

#include "gpu/kernels/block_sum.cuh"
#include "gpu/kernels/launch.cuh"

namespace {

__device__ float over_warp_max(float value) {
  for (int step = kWarp / 2; step > 0; step /= 2) value = fmaxf(value, __shfl_xor_sync(~0U, value, step));
  return value;
}
__device__ unsigned over_warp_least(unsigned value) {
  for (int step = kWarp / 2; step > 0; step /= 2) value = min(value, __shfl_xor_sync(~0U, value, step));
  return value;
}

// One warp computes each row. It subtracts the row's largest score, so that no exponential overflows; among equal
// scores the first one counts as the largest. Each lane keeps kKept scores of a row, so a row has at most kKept * 32
// columns. With kKept = 0 the number of columns is not limited: lanes keep no scores, and load them three times.
template <int kKept>
__global__ void softmax_cross_entropy(const float* scores, const std::uint8_t* labels, float* gradient,
                                      AnelloScore* score, std::size_t rows, std::size_t columns) {
  const unsigned lane = threadIdx.x % kWarp;
  const std::size_t warps = stride() / kWarp;
  double loss = 0, correct = 0;
  for (std::size_t r = first() / kWarp; r < rows; r += warps) {
    const float* const row = scores + r * columns;
    float kept[kKept > 0 ? kKept : 1];
    for (int k = 0; k < kKept; k++)
      if (lane + k * kWarp < columns) kept[k] = row[lane + k * kWarp];
    const auto each = [&](auto function) {
      for (int k = 0; k < kKept; k++)
        if (lane + k * kWarp < columns) function(kept[k], lane + k * kWarp);
      for (std::size_t c = lane; kKept == 0 && c < columns; c += kWarp) {
        float again = row[c];
        function(again, c);
      }
    };
    float best = -INFINITY;
    each([&](float value, std::size_t) { best = fmaxf(best, value); });
    best = over_warp_max(best);
    double total = 0;
    unsigned place = ~0U;
    each([&](float& value, std::size_t c) {
      if (value == best && place == ~0U) place = static_cast<unsigned>(c);
      value = expf(value - best);
      total += static_cast<double>(value);
    });
    total = over_warp_sum(total);
    place = over_warp_least(place);
    const double inverse = 1 / total;
    each([&](float value, std::size_t c) {
      const float exponential = kKept > 0 ? value : expf(value - best);
      gradient[r * columns + c] =
          static_cast<float>(static_cast<double>(exponential) * inverse) - (c == labels[r] ? 1.0F : 0.0F);
    });
    loss += log(total) - static_cast<double>(row[labels[r]] - best);
    correct += place == labels[r] ? 1 : 0;
  }
  loss = over_block_sum(lane == 0 ? loss : 0);
  correct = over_block_sum(lane == 0 ? correct : 0);
  if (threadIdx.x != 0) return;
  atomicAdd(&score->loss, loss);
  atomicAdd(reinterpret_cast<unsigned long long*>(&score->correct), static_cast<unsigned long long>(correct));
}

}  // namespace

int anello_cross_entropy(const float* scores, const std::uint8_t* labels, float* gradient, AnelloScore* score,
                         std::size_t rows, std::size_t columns, cudaStream_t stream) {
  if (rows == 0) return 0;
  const auto kernel = columns <= kWarp        ? softmax_cross_entropy<1>
                      : columns <= 32 * kWarp ? softmax_cross_entropy<32>
                                              : softmax_cross_entropy<0>;
  kernel<<<blocks_for(rows * kWarp), kThreads, 0, stream>>>(scores, labels, gradient, score, rows, columns);
  return launched();
}
