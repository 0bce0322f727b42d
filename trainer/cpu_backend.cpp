// Computes on the processor: OpenBLAS computes matrix products, with one thread for each rank; the rest are loops that
// compilers vectorize.
#include <cblas.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <new>
#include <stdexcept>
#include <utility>

#include "trainer/backend.hpp"

namespace anello::trainer {
namespace {

constexpr std::align_val_t kAlignment{64};

class CpuBackend : public Backend {
 public:
  CpuBackend() {
    // The number of threads is set for the whole process, and ranks can be threads of one process.
    static std::once_flag once;
    std::call_once(once, [] { openblas_set_num_threads(1); });
  }
  std::string name() const override { return "cpu"; }

  Memory allocate(std::size_t elems) override {
    auto* memory = static_cast<float*>(operator new[](elems * sizeof(float), kAlignment));
    std::fill_n(memory, elems, 0.0F);
    return {memory, [](float* elements) { operator delete[](elements, kAlignment); }};
  }
  void copy_in(std::span<const float> host, float* to) override { std::copy(host.begin(), host.end(), to); }
  Labels allocate_labels(std::size_t count) override {
    return {new std::uint8_t[count]{}, [](std::uint8_t* labels) { delete[] labels; }};
  }
  void copy_in(std::span<const std::uint8_t> host, std::uint8_t* to) override {
    std::copy(host.begin(), host.end(), to);
  }
  void copy_out(const float* from, std::span<float> host) override { std::copy_n(from, host.size(), host.begin()); }

  void multiply(ConstMatrix a, ConstMatrix b, Matrix product) override;
  void add_to_rows(std::span<const float> row, Matrix to) override;
  void sum_rows(ConstMatrix from, std::span<float> row) override;
  void relu(ConstMatrix in, Matrix out) override;
  void relu_gradient(ConstMatrix out, ConstMatrix out_gradient, Matrix in_gradient) override;
  void cross_entropy(ConstMatrix scores, std::span<const std::uint8_t> labels, Matrix gradient) override;
  Score take_score() override { return std::exchange(score_, {}); }
  void add(std::span<const float> from, std::span<float> to) override;
  void scale(float factor, std::span<float> values) override;
  double square_sum(std::span<const std::span<float>> list) override;
  void momentum_step(std::span<float> parameters, std::span<const float> gradient, std::span<float> velocity,
                     float rate, float momentum) override;
  void adam_step(std::span<float> parameters, std::span<const float> gradient, std::span<float> mean,
                 std::span<float> square, const AdamRates& rates) override;

 private:
  Score score_;
};

std::string shape(const ConstMatrix& m) {
  return std::to_string(m.rows) + "x" + std::to_string(m.columns);
}

void CpuBackend::multiply(ConstMatrix a, ConstMatrix b, Matrix product) {
  if (a.columns != b.rows || product.rows != a.rows || product.columns != b.columns)
    throw std::logic_error("a " + shape(a) + " matrix times a " + shape(b) + " matrix is not a " + shape(product) +
                           " matrix");
  if (product.size() == 0) return;
  if (a.columns == 0) return std::fill_n(product.data, product.size(), 0.0F), void();
  const auto order = [](const ConstMatrix& m) { return m.transposed ? CblasTrans : CblasNoTrans; };
  const auto stride = [](const ConstMatrix& m) { return blasint(m.transposed ? m.rows : m.columns); };
  cblas_sgemm(CblasRowMajor, order(a), order(b), blasint(a.rows), blasint(b.columns), blasint(a.columns), 1.0F, a.data,
              stride(a), b.data, stride(b), 0.0F, product.data, blasint(product.columns));
}

void CpuBackend::add_to_rows(std::span<const float> row, Matrix to) {
  for (std::size_t r = 0; r < to.rows; r++)
    for (std::size_t c = 0; c < to.columns; c++) to.data[r * to.columns + c] += row[c];
}

void CpuBackend::sum_rows(ConstMatrix from, std::span<float> row) {
  std::fill(row.begin(), row.end(), 0.0F);
  for (std::size_t r = 0; r < from.rows; r++)
    for (std::size_t c = 0; c < from.columns; c++) row[c] += from.data[r * from.columns + c];
}

void CpuBackend::relu(ConstMatrix in, Matrix out) {
  for (std::size_t i = 0; i < out.size(); i++) out.data[i] = std::max(in.data[i], 0.0F);
}

void CpuBackend::relu_gradient(ConstMatrix out, ConstMatrix out_gradient, Matrix in_gradient) {
  for (std::size_t i = 0; i < in_gradient.size(); i++)
    in_gradient.data[i] = out.data[i] > 0 ? out_gradient.data[i] : 0.0F;
}

void CpuBackend::cross_entropy(ConstMatrix scores, std::span<const std::uint8_t> labels, Matrix gradient) {
  Score sum;
  for (std::size_t r = 0; r < scores.rows; r++) {
    const std::span<const float> row(scores.data + r * scores.columns, scores.columns);
    const std::span<float> slope(gradient.data + r * scores.columns, scores.columns);
    // The largest score is subtracted, so that no exponential overflows.
    const auto best = std::max_element(row.begin(), row.end());
    double total = 0;
    for (std::size_t c = 0; c < row.size(); c++) total += slope[c] = std::exp(row[c] - *best);
    for (float& value : slope) value = float(value / total);
    slope[labels[r]] -= 1;
    sum.loss += std::log(total) - double(row[labels[r]] - *best);
    sum.correct += best - row.begin() == labels[r];
  }
  score_.loss += sum.loss;
  score_.correct += sum.correct;
}

void CpuBackend::add(std::span<const float> from, std::span<float> to) {
  for (std::size_t i = 0; i < from.size(); i++) to[i] += from[i];
}

void CpuBackend::scale(float factor, std::span<float> values) {
  for (float& value : values) value *= factor;
}

double CpuBackend::square_sum(std::span<const std::span<float>> list) {
  double sum = 0;
  for (const auto& values : list)
    for (const float value : values) sum += double(value) * value;
  return sum;
}

void CpuBackend::momentum_step(std::span<float> parameters, std::span<const float> gradient, std::span<float> velocity,
                               float rate, float momentum) {
  for (std::size_t i = 0; i < parameters.size(); i++) {
    velocity[i] = momentum * velocity[i] + gradient[i];
    parameters[i] -= rate * velocity[i];
  }
}

void CpuBackend::adam_step(std::span<float> parameters, std::span<const float> gradient, std::span<float> mean,
                           std::span<float> square, const AdamRates& rates) {
  for (std::size_t i = 0; i < parameters.size(); i++) {
    mean[i] += (1 - rates.beta1) * (gradient[i] - mean[i]);
    square[i] += (1 - rates.beta2) * (gradient[i] * gradient[i] - square[i]);
    parameters[i] -= rates.step * mean[i] / (std::sqrt(square[i]) + rates.epsilon);
  }
}

}  // namespace

std::unique_ptr<Backend> make_cpu_backend() {
  return std::make_unique<CpuBackend>();
}

}  // namespace anello::trainer
