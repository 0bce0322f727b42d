#include "trainer/layer.hpp"

#include <cmath>

namespace anello::trainer {
namespace {

// out = in * weights^T + bias. The parameters are the weights (outputs x inputs), then the bias (outputs).
class Linear : public Layer {
 public:
  Linear(std::size_t inputs, std::size_t outputs) : inputs_(inputs), outputs_(outputs) {}
  std::size_t output_size() const override { return outputs_; }
  std::size_t parameter_count() const override { return outputs_ * inputs_ + outputs_; }

  // Chooses uniform weights with variance 2 / inputs, so that activations behind rectifiers keep their scale (He et al.
  // 2015).
  void initialise(std::span<float> parameters, Random& random) const override {
    const double bound = std::sqrt(6.0 / double(inputs_));
    for (float& weight : parameters.first(outputs_ * inputs_)) weight = float(bound * (2 * random.uniform() - 1));
  }

  void forward(Backend& backend, std::span<const float> parameters, ConstMatrix in, Matrix out) const override {
    backend.multiply(in, transpose(weights(parameters)), out);
    backend.add_to_rows(parameters.last(outputs_), out);
  }

  void backward(Backend& backend, std::span<const float> parameters, ConstMatrix in, ConstMatrix,
                ConstMatrix out_gradient, std::span<float> parameter_gradient, Matrix in_gradient) const override {
    backend.multiply(transpose(out_gradient), in, {parameter_gradient.data(), outputs_, inputs_});
    backend.sum_rows(out_gradient, parameter_gradient.last(outputs_));
    if (in_gradient.data) backend.multiply(out_gradient, weights(parameters), in_gradient);
  }

 private:
  ConstMatrix weights(std::span<const float> parameters) const { return {parameters.data(), outputs_, inputs_}; }
  std::size_t inputs_, outputs_;
};

class Relu : public Layer {
 public:
  explicit Relu(std::size_t size) : size_(size) {}
  std::size_t output_size() const override { return size_; }
  void forward(Backend& backend, std::span<const float>, ConstMatrix in, Matrix out) const override {
    backend.relu(in, out);
  }
  void backward(Backend& backend, std::span<const float>, ConstMatrix, ConstMatrix out, ConstMatrix out_gradient,
                std::span<float>, Matrix in_gradient) const override {
    if (in_gradient.data) backend.relu_gradient(out, out_gradient, in_gradient);
  }

 private:
  std::size_t size_;
};

}  // namespace

std::unique_ptr<Layer> make_linear(std::size_t inputs, std::size_t outputs) {
  return std::make_unique<Linear>(inputs, outputs);
}
std::unique_ptr<Layer> make_relu(std::size_t size) {
  return std::make_unique<Relu>(size);
}

Layers make_mlp(std::size_t inputs, std::span<const std::size_t> hidden, std::size_t classes) {
  Layers layers;
  for (const std::size_t width : hidden) {
    layers.push_back(make_linear(inputs, width));
    layers.push_back(make_relu(width));
    inputs = width;
  }
  layers.push_back(make_linear(inputs, classes));
  return layers;
}

}  // namespace anello::trainer
