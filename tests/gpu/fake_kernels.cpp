// The trainer's kernels for the fake GPU: the CPU's backend, queued on fake streams.
#include <anello/tensor.hpp>
#include <memory>
#include <span>
#include <vector>

#include "gpu/kernels/kernel_table.h"
#include "tests/gpu/fake_gpu.hpp"
#include "trainer/backend.hpp"

namespace {

using anello::GpuStream;
using anello::gpu::fake::queue;
using anello::trainer::Backend;
using anello::trainer::ConstMatrix;
using anello::trainer::Matrix;

// Each kernel has a backend of its own, since streams are threads.
template <class Work>
int queued(GpuStream stream, Work work) {
  if (!anello::gpu::fake::may_launch(stream)) return 400;
  queue(stream, [work] { work(*anello::trainer::make_cpu_backend()); });
  return 0;
}

ConstMatrix meant(const float* data, int transposed, std::size_t rows, std::size_t columns) {
  return {data, rows, columns, transposed != 0};
}
std::span<const float> of(const float* data, std::size_t count) {
  return {data, count};
}
std::span<float> of(float* data, std::size_t count) {
  return {data, count};
}

double read(const void* from, int type, std::size_t at) {
  using namespace anello;
  switch (DType(type)) {
    case DType::f16:
      return float(static_cast<const f16*>(from)[at]);
    case DType::bf16:
      return float(static_cast<const bf16*>(from)[at]);
    case DType::f32:
      return static_cast<const float*>(from)[at];
    default:
      return static_cast<const double*>(from)[at];
  }
}
void write(void* to, int type, std::size_t at, double value) {
  using namespace anello;
  switch (DType(type)) {
    case DType::f16:
      static_cast<f16*>(to)[at] = f16(float(value));
      break;
    case DType::bf16:
      static_cast<bf16*>(to)[at] = bf16(float(value));
      break;
    case DType::f32:
      static_cast<float*>(to)[at] = float(value);
      break;
    default:
      static_cast<double*>(to)[at] = value;
  }
}

int cast(const AnelloPart* parts, std::size_t part_count, int from_type, int to_type, double factor, GpuStream stream) {
  return queued(stream, [=, all = std::vector<AnelloPart>(parts, parts + part_count)](Backend&) {
    for (const AnelloPart& part : all)
      for (std::size_t i = 0; i < part.count; i++) write(part.to, to_type, i, read(part.from, from_type, i) * factor);
  });
}

int multiply(void*, const float* a, int a_transposed, const float* b, int b_transposed, float* product,
             std::size_t rows, std::size_t inner, std::size_t columns, GpuStream stream) {
  return queued(stream, [=](Backend& cpu) {
    cpu.multiply(meant(a, a_transposed, rows, inner), meant(b, b_transposed, inner, columns), {product, rows, columns});
  });
}
int gather(const std::uint8_t* pixels, const std::uint8_t* labels, const std::uint32_t* indices, float shift,
           float scale, float* images, std::uint8_t* row_labels, std::size_t rows, std::size_t columns,
           GpuStream stream) {
  return queued(stream, [=](Backend&) {
    for (std::size_t r = 0; r < rows; r++) {
      row_labels[r] = labels[indices[r]];
      for (std::size_t c = 0; c < columns; c++)
        images[r * columns + c] = scale * (float(pixels[indices[r] * columns + c]) - shift);
    }
  });
}
int add_to_rows(const float* row, float* to, std::size_t rows, std::size_t columns, GpuStream stream) {
  return queued(stream, [=](Backend& cpu) { cpu.add_to_rows(of(row, columns), {to, rows, columns}); });
}
int sum_rows(const float* from, float* row, std::size_t rows, std::size_t columns, GpuStream stream) {
  return queued(stream, [=](Backend& cpu) { cpu.sum_rows({from, rows, columns}, of(row, columns)); });
}
int relu(const float* in, float* out, std::size_t count, GpuStream stream) {
  return queued(stream, [=](Backend& cpu) { cpu.relu({in, 1, count}, {out, 1, count}); });
}
int relu_gradient(const float* out, const float* out_gradient, float* in_gradient, std::size_t count,
                  GpuStream stream) {
  return queued(stream, [=](Backend& cpu) {
    cpu.relu_gradient({out, 1, count}, {out_gradient, 1, count}, {in_gradient, 1, count});
  });
}
int cross_entropy(const float* scores, const std::uint8_t* labels, float* gradient, AnelloScore* score,
                  std::size_t rows, std::size_t columns, GpuStream stream) {
  return queued(stream, [=](Backend& cpu) {
    cpu.cross_entropy({scores, rows, columns}, {labels, rows}, {gradient, rows, columns});
    const auto sum = cpu.take_score();
    score->loss += sum.loss;
    score->correct += sum.correct;
  });
}
int add(const float* from, float* to, std::size_t count, GpuStream stream) {
  return queued(stream, [=](Backend& cpu) { cpu.add(of(from, count), of(to, count)); });
}
int scale(float factor, float* values, std::size_t count, GpuStream stream) {
  return queued(stream, [=](Backend& cpu) { cpu.scale(factor, of(values, count)); });
}
int square_sum(const float* values, double* sum, std::size_t count, GpuStream stream) {
  return queued(stream, [=](Backend& cpu) {
    const auto all = of(const_cast<float*>(values), count);
    *sum += cpu.square_sum(std::span(&all, 1));
  });
}
int momentum_step(float* parameters, const float* gradient, float* velocity, float rate, float momentum,
                  std::size_t count, GpuStream stream) {
  return queued(stream, [=](Backend& cpu) {
    cpu.momentum_step(of(parameters, count), of(gradient, count), of(velocity, count), rate, momentum);
  });
}
int adam_step(float* parameters, const float* gradient, float* mean, float* square, float step, float beta1,
              float beta2, float epsilon, std::size_t count, GpuStream stream) {
  return queued(stream, [=](Backend& cpu) {
    cpu.adam_step(of(parameters, count), of(gradient, count), of(mean, count), of(square, count),
                  {step, beta1, beta2, epsilon});
  });
}

}  // namespace

const AnelloKernelTable* anello_kernel_table() {
  static const AnelloKernelTable table = {.version = ANELLO_KERNEL_TABLE_VERSION,
                                          .describe = [](int) { return "the fake is broken"; },
                                          .cast = cast,
                                          .create = [](void** context) { return *context = nullptr, 0; },
                                          .destroy = [](void*) { return 0; },
                                          .multiply = multiply,
                                          .gather = gather,
                                          .add_to_rows = add_to_rows,
                                          .sum_rows = sum_rows,
                                          .relu = relu,
                                          .relu_gradient = relu_gradient,
                                          .cross_entropy = cross_entropy,
                                          .add = add,
                                          .scale = scale,
                                          .square_sum = square_sum,
                                          .momentum_step = momentum_step,
                                          .adam_step = adam_step};
  return &table;
}
