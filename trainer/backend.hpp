// The arithmetic of training: the functions that a device must offer. Layers, optimizers and the model use only these
// functions and never access a number themselves, so a new device only has to implement this interface. Matrices are
// row-major floats in memory that the backend allocated; a batch is a matrix with one row for each sample. Matrices may
// have no rows. Not thread-safe; each rank has its own backend. A backend does not depend on ranks.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace anello::trainer {

struct Matrix {
  float* data = nullptr;
  std::size_t rows = 0, columns = 0;
  std::size_t size() const { return rows * columns; }
};

struct ConstMatrix {
  const float* data = nullptr;
  std::size_t rows = 0, columns = 0;
  // If true, `rows` and `columns` describe the transpose, and the memory holds a matrix of columns x rows.
  bool transposed = false;
  ConstMatrix(const float* data_, std::size_t rows_, std::size_t columns_, bool transposed_ = false)
      : data(data_), rows(rows_), columns(columns_), transposed(transposed_) {}
  ConstMatrix(Matrix m) : data(m.data), rows(m.rows), columns(m.columns) {}
};
inline ConstMatrix transpose(ConstMatrix m) {
  return {m.data, m.columns, m.rows, !m.transposed};
}

// A batch of samples in host memory. The memory of the samples does not change while the backend exists. A pixel
// becomes scale * (pixel - shift).
struct Chosen {
  std::span<const std::uint8_t> pixels, labels;  // all samples, one after the other
  float shift, scale;
  std::span<const std::uint32_t> indices;
};

// Sums over the samples of a batch.
struct Score {
  double loss = 0;
  std::size_t correct = 0;
};

struct AdamRates {
  float step, beta1, beta2, epsilon;  // `step` and `epsilon` include both bias corrections
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;  // the backend's name for texts, such as "cpu"

  using Memory = std::unique_ptr<float[], std::function<void(float*)>>;
  virtual Memory allocate(std::size_t elems) = 0;  // memory of zeros
  virtual void copy_in(std::span<const float> host, float* to) = 0;
  using Labels = std::unique_ptr<std::uint8_t[], std::function<void(std::uint8_t*)>>;
  virtual Labels allocate_labels(std::size_t count) = 0;
  virtual void copy_in(std::span<const std::uint8_t> host, std::uint8_t* to) = 0;
  virtual void copy_out(const float* from, std::span<float> host) = 0;

  // Writes the batch, if the backend has a copy of all samples in its memory. Otherwise returns false and writes
  // nothing.
  virtual bool gather(const Chosen&, Matrix /*images*/, std::uint8_t* /*labels*/) { return false; }
  // Runs `work`, which may call only the functions below that return nothing. For one recording, `work` must always
  // call the same functions with the same arguments: a GPU may record the calls, and repeat them later without calling
  // `work`. All memory that the calls use must outlive the recording.
  struct Kept {
    virtual ~Kept() = default;
  };
  using Recording = std::unique_ptr<Kept>;  // empty before the first call of repeat()
  virtual void repeat(Recording&, const std::function<void()>& work) { work(); }

  virtual void multiply(ConstMatrix a, ConstMatrix b, Matrix product) = 0;
  virtual void add_to_rows(std::span<const float> row, Matrix to) = 0;
  virtual void sum_rows(ConstMatrix from, std::span<float> row) = 0;
  virtual void relu(ConstMatrix in, Matrix out) = 0;
  virtual void relu_gradient(ConstMatrix out, ConstMatrix out_gradient, Matrix in_gradient) = 0;
  // Computes the loss of softmax(scores) against the labels, which are in the backend's memory. Writes the gradient of
  // the loss with respect to the scores, and adds the loss and the number of correct answers to a sum. take_score()
  // returns that sum and clears it. On a GPU, take_score() waits for the GPU, and cross_entropy() does not wait.
  virtual void cross_entropy(ConstMatrix scores, std::span<const std::uint8_t> labels, Matrix gradient) = 0;
  virtual Score take_score() = 0;

  virtual void add(std::span<const float> from, std::span<float> to) = 0;
  virtual void scale(float factor, std::span<float> values) = 0;
  virtual double square_sum(std::span<const std::span<float>> list) = 0;
  // velocity = momentum * velocity + gradient; parameters -= rate * velocity
  virtual void momentum_step(std::span<float> parameters, std::span<const float> gradient, std::span<float> velocity,
                             float rate, float momentum) = 0;
  // Moves `mean` and `square` towards the gradient and its square; parameters -= step * mean / (sqrt(square) + epsilon)
  virtual void adam_step(std::span<float> parameters, std::span<const float> gradient, std::span<float> mean,
                         std::span<float> square, const AdamRates& rates) = 0;
};

std::unique_ptr<Backend> make_cpu_backend();

}  // namespace anello::trainer
