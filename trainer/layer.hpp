// A layer is a function of its input and its parameters, with the gradients for both. A layer stores no numbers: the
// model passes it views of the parameters, the activations and their gradients. A new kind of layer only has to
// implement this class.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trainer/backend.hpp"
#include "trainer/random.hpp"

namespace anello::trainer {

class Layer {
 public:
  virtual ~Layer() = default;
  virtual std::size_t output_size() const = 0;  // floats for each sample
  virtual std::size_t parameter_count() const { return 0; }
  virtual void initialise(std::span<float> /*parameters, on the host*/, Random&) const {}

  // `in`: batch x input size. `out`: batch x output size.
  virtual void forward(Backend&, std::span<const float> parameters, ConstMatrix in, Matrix out) const = 0;
  // Computes two gradients from the gradient of `out`: the gradient of the parameters, which replaces the previous
  // content of parameter_gradient, and the gradient of `in`. The latter is left out if in_gradient has no data, because
  // the first layer's input needs no gradient.
  virtual void backward(Backend&, std::span<const float> parameters, ConstMatrix in, ConstMatrix out,
                        ConstMatrix out_gradient, std::span<float> parameter_gradient, Matrix in_gradient) const = 0;
};

using Layers = std::vector<std::unique_ptr<Layer>>;

std::unique_ptr<Layer> make_linear(std::size_t inputs, std::size_t outputs);
std::unique_ptr<Layer> make_relu(std::size_t size);

// A multilayer perceptron: linear layers with rectifiers between them.
Layers make_mlp(std::size_t inputs, std::span<const std::size_t> hidden, std::size_t classes);

}  // namespace anello::trainer
