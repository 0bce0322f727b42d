// Kernels that read and write each element once, so the speed of memory limits them. Each thread accesses 16 bytes at a
// time, and the grid walks the array in strides. One launch processes all parameters, which are contiguous, or a list
// of parts.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "gpu/kernels/blas.hpp"
#include "gpu/kernels/block_sum.cuh"
#include "gpu/kernels/launch.cuh"

namespace {

const char* describe(int status) {
  return is_of_blas(status) ? blas_describe(status) : cudaGetErrorString(static_cast<cudaError_t>(status));
}

// Processes four elements at a time, and the remaining ones one by one. If the arrays are not aligned to 16 bytes,
// processes all elements one by one.
template <class Four, class One>
__device__ void over(std::size_t count, bool aligned, Four four, One one) {
  const std::size_t fours = aligned ? count / 4 : 0;
  for (std::size_t i = first(); i < fours; i += stride()) four(i);
  for (std::size_t i = 4 * fours + first(); i < count; i += stride()) one(i);
}

template <class... Arrays>
bool aligned(const Arrays*... arrays) {
  return ((reinterpret_cast<std::uintptr_t>(arrays) | ...) & 15) == 0;
}

__device__ float4& four_of(float* array, std::size_t i) {
  return reinterpret_cast<float4*>(array)[i];
}
__device__ float4 four_of(const float* array, std::size_t i) {
  return reinterpret_cast<const float4*>(array)[i];
}

template <class Function>
__device__ float4 each(float4 a, float4 b, Function function) {
  return {function(a.x, b.x), function(a.y, b.y), function(a.z, b.z), function(a.w, b.w)};
}

// out = function(a, b), element by element; `a` and `out` may be the same memory.
template <class Function>
__global__ void combine(const float* a, const float* b, float* out, std::size_t count, bool by_four,
                        Function function) {
  over(
      count, by_four, [&](std::size_t i) { four_of(out, i) = each(four_of(a, i), four_of(b, i), function); },
      [&](std::size_t i) { out[i] = function(a[i], b[i]); });
}

template <class Function>
int launch_combine(const float* a, const float* b, float* out, std::size_t count, cudaStream_t stream,
                   Function function) {
  if (count == 0) return 0;
  combine<<<blocks_for((count + 3) / 4), kThreads, 0, stream>>>(a, b, out, count, aligned(a, b, out), function);
  return launched();
}

struct Relu {
  __device__ float operator()(float in, float) const { return in < 0 ? 0.0F : in; }  // a NaN in the input stays a NaN
};
struct ReluGradient {
  __device__ float operator()(float out, float gradient) const { return out > 0 ? gradient : 0.0F; }
};
struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Scaled {
  float factor;
  __device__ float operator()(float value, float) const { return factor * value; }
};

__device__ float4 operator+(float4 a, float4 b) {
  return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
}

// A block processes several rows at once, so that their loads overlap. It loads four pixels at a time if all rows are
// aligned for such loads.
constexpr int kGatheredAtOnce = 4;
__global__ void gather_rows(const std::uint8_t* pixels, const std::uint8_t* labels, const std::uint32_t* indices,
                            float shift, float scale, float* images, std::uint8_t* row_labels, std::size_t rows,
                            std::size_t columns, bool by_four) {
  const auto value = [&](std::uint8_t pixel) { return scale * (static_cast<float>(pixel) - shift); };
  const auto four_values = [&](uchar4 some) -> float4 {
    return {value(some.x), value(some.y), value(some.z), value(some.w)};
  };
  for (std::size_t r = blockIdx.x * std::size_t(kGatheredAtOnce); r < rows; r += gridDim.x * kGatheredAtOnce) {
    const int here = static_cast<int>(min(rows - r, std::size_t(kGatheredAtOnce)));
    const std::uint8_t* from[kGatheredAtOnce];
    for (int k = 0; k < kGatheredAtOnce; k++) from[k] = pixels + indices[r + min(k, here - 1)] * columns;
    for (std::size_t c = threadIdx.x; by_four && c < columns / 4; c += blockDim.x) {
      uchar4 some[kGatheredAtOnce];
      for (int k = 0; k < kGatheredAtOnce; k++) some[k] = reinterpret_cast<const uchar4*>(from[k])[c];
      for (int k = 0; k < here; k++) four_of(images + (r + k) * columns, c) = four_values(some[k]);
    }
    for (int k = 0; k < here; k++) {
      for (std::size_t c = threadIdx.x; !by_four && c < columns; c += blockDim.x)
        images[(r + k) * columns + c] = value(from[k][c]);
      if (threadIdx.x == 0) row_labels[r + k] = labels[indices[r + k]];
    }
  }
}

// Each thread tracks its column as it walks through the array, because a division for each element would take longer
// than the memory access.
template <class T>
__global__ void add_row(const T* row, T* to, std::size_t count, std::size_t columns) {
  const std::size_t step = stride() % columns;
  std::size_t column = first() % columns;
  for (std::size_t i = first(); i < count; i += stride()) {
    to[i] = to[i] + row[column];
    column += step;
    if (column >= columns) column -= columns;
  }
}

// One block computes 8 columns, which are one sector of memory. Each thread of the block adds every 128th row, eight
// rows at a time, so that a batch of 1024 rows is loaded at once. The threads' sums are added in a fixed order, so that
// every run has the same result. An H200 reads sectors at only 75 % of the speed of whole lines, no matter how many
// loads overlap. But if blocks read whole lines, several blocks would share the rows of a column, and a second kernel
// would have to add their sums.
constexpr int kColumns = 8, kRowThreads = 1024, kRowsAtOnce = kRowThreads / kColumns;

__global__ void __launch_bounds__(kRowThreads)
    sum_columns(const float* from, float* row, std::size_t rows, std::size_t columns) {
  __shared__ float part[kColumns][kRowThreads / kWarp];
  const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const std::size_t column = blockIdx.x * static_cast<std::size_t>(kColumns) + threadIdx.x % kColumns;
  float sum = 0;
  if (column < columns) {
    std::size_t r = threadIdx.x / kColumns;
    for (; r + 7 * kRowsAtOnce < rows; r += 8 * kRowsAtOnce) {
      float some[8];
      for (int k = 0; k < 8; k++) some[k] = from[(r + k * kRowsAtOnce) * columns + column];
      for (int k = 0; k < 8; k++) sum += some[k];
    }
    for (; r < rows; r += kRowsAtOnce) sum += from[r * columns + column];
  }
  for (int step = kWarp / 2; step >= kColumns; step /= 2) sum += __shfl_xor_sync(~0U, sum, step);
  if (lane < kColumns) part[lane][warp] = sum;
  __syncthreads();
  if (warp >= kColumns) return;
  sum = part[warp][lane];
  for (int step = kWarp / 2; step > 0; step /= 2) sum += __shfl_xor_sync(~0U, sum, step);
  const std::size_t own = blockIdx.x * static_cast<std::size_t>(kColumns) + warp;
  if (lane == 0 && own < columns) row[own] = sum;
}

__device__ double square(float4 v) {
  return static_cast<double>(v.x) * v.x + static_cast<double>(v.y) * v.y + static_cast<double>(v.z) * v.z +
         static_cast<double>(v.w) * v.w;
}

// In each thread, four loads of 16 bytes overlap.
__global__ void square_parts(const float* values, double* parts, std::size_t count, bool by_four) {
  double own = 0;
  const std::size_t fours = by_four ? count / 4 : 0;
  std::size_t i = first();
  for (; i + 3 * stride() < fours; i += 4 * stride()) {
    float4 some[4];
    for (int k = 0; k < 4; k++) some[k] = four_of(values, i + k * stride());
    for (int k = 0; k < 4; k++) own += square(some[k]);
  }
  for (; i < fours; i += stride()) own += square(four_of(values, i));
  for (i = 4 * fours + first(); i < count; i += stride()) own += static_cast<double>(values[i]) * values[i];
  own = over_block_sum(own);
  if (threadIdx.x == 0) parts[blockIdx.x] = own;
}

// Launch as one block.
__global__ void add_parts(const double* parts, double* sum) {
  double own = 0;
  for (int i = static_cast<int>(threadIdx.x); i < ANELLO_SQUARE_PARTS; i += kThreads) own += parts[i];
  own = over_block_sum(own);
  if (threadIdx.x == 0) *sum += own;
}

__device__ void momentum(float& parameter, float gradient, float& velocity, float rate, float keep) {
  velocity = keep * velocity + gradient;
  parameter -= rate * velocity;
}

__global__ void step_with_momentum(float* parameters, const float* gradient, float* velocity, float rate, float keep,
                                   std::size_t count, bool by_four) {
  over(
      count, by_four,
      [&](std::size_t i) {
        float4 p = four_of(parameters, i), v = four_of(velocity, i);
        const float4 g = four_of(gradient, i);
        momentum(p.x, g.x, v.x, rate, keep);
        momentum(p.y, g.y, v.y, rate, keep);
        momentum(p.z, g.z, v.z, rate, keep);
        momentum(p.w, g.w, v.w, rate, keep);
        four_of(parameters, i) = p;
        four_of(velocity, i) = v;
      },
      [&](std::size_t i) { momentum(parameters[i], gradient[i], velocity[i], rate, keep); });
}

struct Adam {
  float step, beta1, beta2, epsilon;
  __device__ void operator()(float& parameter, float gradient, float& mean, float& square) const {
    mean += (1 - beta1) * (gradient - mean);
    square += (1 - beta2) * (gradient * gradient - square);
    parameter -= step * mean / (sqrtf(square) + epsilon);
  }
};

__global__ void step_with_adam(float* parameters, const float* gradient, float* mean, float* square, Adam adam,
                               std::size_t count, bool by_four) {
  over(
      count, by_four,
      [&](std::size_t i) {
        float4 p = four_of(parameters, i), m = four_of(mean, i), s = four_of(square, i);
        const float4 g = four_of(gradient, i);
        adam(p.x, g.x, m.x, s.x);
        adam(p.y, g.y, m.y, s.y);
        adam(p.z, g.z, m.z, s.z);
        adam(p.w, g.w, m.w, s.w);
        four_of(parameters, i) = p;
        four_of(mean, i) = m;
        four_of(square, i) = s;
      },
      [&](std::size_t i) { adam(parameters[i], gradient[i], mean[i], square[i]); });
}

int multiply(void* context, const float* a, int a_transposed, const float* b, int b_transposed, float* product,
             std::size_t rows, std::size_t inner, std::size_t columns, cudaStream_t stream) {
  if (rows * columns == 0) return 0;
  if (inner == 0) return static_cast<int>(cudaMemsetAsync(product, 0, rows * columns * sizeof(float), stream));
  return blas_multiply(context, a, a_transposed, b, b_transposed, product, rows, inner, columns, stream);
}

int gather(const std::uint8_t* pixels, const std::uint8_t* labels, const std::uint32_t* indices, float shift,
           float scale, float* images, std::uint8_t* row_labels, std::size_t rows, std::size_t columns,
           cudaStream_t stream) {
  if (rows * columns == 0) return 0;
  const std::size_t several = (rows + kGatheredAtOnce - 1) / kGatheredAtOnce;
  const int blocks = static_cast<int>(std::min<std::size_t>(several, kMaxBlocks));
  const bool by_four = columns % 4 == 0 && aligned(images) && reinterpret_cast<std::uintptr_t>(pixels) % 4 == 0;
  gather_rows<<<blocks, kThreads, 0, stream>>>(pixels, labels, indices, shift, scale, images, row_labels, rows, columns,
                                               by_four);
  return launched();
}

int add_to_rows(const float* row, float* to, std::size_t rows, std::size_t columns, cudaStream_t stream) {
  if (rows * columns == 0) return 0;
  if (columns % 4 == 0 && aligned(row, to))
    add_row<<<blocks_for(rows * columns / 4), kThreads, 0, stream>>>(
        reinterpret_cast<const float4*>(row), reinterpret_cast<float4*>(to), rows * columns / 4, columns / 4);
  else
    add_row<<<blocks_for(rows * columns), kThreads, 0, stream>>>(row, to, rows * columns, columns);
  return launched();
}

int sum_rows(const float* from, float* row, std::size_t rows, std::size_t columns, cudaStream_t stream) {
  if (columns == 0) return 0;
  const int blocks = static_cast<int>((columns + kColumns - 1) / kColumns);
  sum_columns<<<blocks, kRowThreads, 0, stream>>>(from, row, rows, columns);
  return launched();
}

int relu(const float* in, float* out, std::size_t count, cudaStream_t stream) {
  return launch_combine(in, in, out, count, stream, Relu{});
}
int relu_gradient(const float* out, const float* out_gradient, float* in_gradient, std::size_t count,
                  cudaStream_t stream) {
  return launch_combine(out, out_gradient, in_gradient, count, stream, ReluGradient{});
}
int add(const float* from, float* to, std::size_t count, cudaStream_t stream) {
  return launch_combine(to, from, to, count, stream, Sum{});
}
int scale(float factor, float* values, std::size_t count, cudaStream_t stream) {
  return launch_combine(values, values, values, count, stream, Scaled{factor});
}

int square_sum(const float* values, double* sum, std::size_t count, cudaStream_t stream) {
  if (count == 0) return 0;
  square_parts<<<ANELLO_SQUARE_PARTS, kThreads, 0, stream>>>(values, sum + 1, count, aligned(values));
  if (const int status = launched()) return status;
  add_parts<<<1, kThreads, 0, stream>>>(sum + 1, sum);
  return launched();
}

int momentum_step(float* parameters, const float* gradient, float* velocity, float rate, float keep, std::size_t count,
                  cudaStream_t stream) {
  if (count == 0) return 0;
  step_with_momentum<<<blocks_for((count + 3) / 4), kThreads, 0, stream>>>(
      parameters, gradient, velocity, rate, keep, count, aligned(parameters, gradient, velocity));
  return launched();
}

int adam_step(float* parameters, const float* gradient, float* mean, float* square, float step, float beta1,
              float beta2, float epsilon, std::size_t count, cudaStream_t stream) {
  if (count == 0) return 0;
  step_with_adam<<<blocks_for((count + 3) / 4), kThreads, 0, stream>>>(parameters, gradient, mean, square,
                                                                       Adam{step, beta1, beta2, epsilon}, count,
                                                                       aligned(parameters, gradient, mean, square));
  return launched();
}

}  // namespace

const AnelloKernelTable* anello_kernel_table() {
  static const AnelloKernelTable table = {ANELLO_KERNEL_TABLE_VERSION,
                                          describe,
                                          anello_cast,
                                          blas_create,
                                          blas_destroy,
                                          multiply,
                                          gather,
                                          add_to_rows,
                                          sum_rows,
                                          relu,
                                          relu_gradient,
                                          anello_cross_entropy,
                                          add,
                                          scale,
                                          square_sum,
                                          momentum_step,
                                          adam_step};
  return &table;
}
