// The trainer's kernels on a GPU made of threads: the processor's backend, queued on fake streams.
#include <memory>
#include <span>

#include "tests/gpu/fake_gpu.hpp"
#include "trainer/backend.hpp"
#include "trainer/cuda/kernel_table.h"

namespace {

using anello::gpu::fake::queue;
using anello::trainer::Backend;
using anello::trainer::ConstMatrix;
using anello::trainer::Matrix;

// A backend for each kernel: streams are threads.
template <class Work>
int queued(void* stream, Work work) {
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

int multiply(void*, const float* a, int a_transposed, const float* b, int b_transposed, float* product,
             std::size_t rows, std::size_t inner, std::size_t columns, void* stream) {
  return queued(stream, [=](Backend& cpu) {
    cpu.multiply(meant(a, a_transposed, rows, inner), meant(b, b_transposed, inner, columns), {product, rows, columns});
  });
}
int add_to_rows(const float* row, float* to, std::size_t rows, std::size_t columns, void* stream) {
  return queued(stream, [=](Backend& cpu) { cpu.add_to_rows(of(row, columns), {to, rows, columns}); });
}
int sum_rows(const float* from, float* row, std::size_t rows, std::size_t columns, void* stream) {
  return queued(stream, [=](Backend& cpu) { cpu.sum_rows({from, rows, columns}, of(row, columns)); });
}
int relu(const float* in, float* out, std::size_t count, void* stream) {
  return queued(stream, [=](Backend& cpu) { cpu.relu({in, 1, count}, {out, 1, count}); });
}
int relu_gradient(const float* out, const float* out_gradient, float* in_gradient, std::size_t count, void* stream) {
  return queued(stream, [=](Backend& cpu) {
    cpu.relu_gradient({out, 1, count}, {out_gradient, 1, count}, {in_gradient, 1, count});
  });
}
int cross_entropy(const float* scores, const std::uint8_t* labels, float* gradient, AnelloScore* score,
                  std::size_t rows, std::size_t columns, void* stream) {
  return queued(stream, [=](Backend& cpu) {
    cpu.cross_entropy({scores, rows, columns}, {labels, rows}, {gradient, rows, columns});
    const auto sum = cpu.take_score();
    score->loss += sum.loss;
    score->correct += sum.correct;
  });
}
int add(const float* from, float* to, std::size_t count, void* stream) {
  return queued(stream, [=](Backend& cpu) { cpu.add(of(from, count), of(to, count)); });
}
int scale(float factor, float* values, std::size_t count, void* stream) {
  return queued(stream, [=](Backend& cpu) { cpu.scale(factor, of(values, count)); });
}
int square_sum(const float* values, double* sum, std::size_t count, void* stream) {
  return queued(stream, [=](Backend& cpu) { *sum += cpu.square_sum(of(values, count)); });
}
int momentum_step(float* parameters, const float* gradient, float* velocity, float rate, float momentum,
                  std::size_t count, void* stream) {
  return queued(stream, [=](Backend& cpu) {
    cpu.momentum_step(of(parameters, count), of(gradient, count), of(velocity, count), rate, momentum);
  });
}
int adam_step(float* parameters, const float* gradient, float* mean, float* square, float step, float beta1,
              float beta2, float epsilon, std::size_t count, void* stream) {
  return queued(stream, [=](Backend& cpu) {
    cpu.adam_step(of(parameters, count), of(gradient, count), of(mean, count), of(square, count),
                  {step, beta1, beta2, epsilon});
  });
}

}  // namespace

const AnelloKernelTable* anello_kernel_table() {
  static const AnelloKernelTable table = {.version = ANELLO_KERNEL_TABLE_VERSION,
                                          .describe = [](int) { return "the fake is broken"; },
                                          .create = [](void** context) { return *context = nullptr, 0; },
                                          .destroy = [](void*) { return 0; },
                                          .multiply = multiply,
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
