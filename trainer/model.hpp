// A stack of layers with its parameters. All parameters are in one buffer, layer after layer, and all gradients in
// another buffer of the same shape, so that a collective, an optimizer, a checkpoint or a hash can use one span. Used
// by one thread of one rank; does not depend on the world.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "trainer/backend.hpp"
#include "trainer/dataset.hpp"
#include "trainer/layer.hpp"

namespace anello::trainer {

class Model {
 public:
  // The weights depend only on the seed, not on the number of ranks. The backend must outlive the model.
  Model(Backend& backend, std::size_t inputs, Layers layers, std::uint64_t seed);

  std::span<float> parameters() { return {parameters_.get(), parameter_count_}; }
  std::uint64_t parameter_hash() const;
  std::span<float> gradient() { return {gradient_.get(), parameter_count_}; }

  // The gradients of the layers that have parameters.
  struct LayerGradient {
    std::string name;
    std::span<float> values;
  };
  std::vector<LayerGradient> layer_gradients();

  // Both functions run the samples through the layers. train() also computes the gradient of their loss, summed over
  // the samples (zero if there are no samples). `into`: with `fresh` this sum replaces gradient(), with `sum` it is
  // added to gradient(). Calls `ready` with the index of each layer gradient as soon as that gradient is complete,
  // beginning with the last layer. Labels are less than the number of classes.
  enum class Into { fresh, sum };
  using Ready = std::function<void(std::size_t layer_gradient)>;
  void train(const Dataset& data, const Samples& from, std::span<const std::uint32_t> indices, const Ready& ready,
             Into into = Into::fresh);
  void evaluate(const Dataset& data, const Samples& from, std::span<const std::uint32_t> indices);
  // Loss and accuracy over the samples since the last call.
  Score take_score() { return backend_.take_score(); }

 private:
  struct Place {  // where the buffers have a layer's parameters, its output and the gradient of that output
    std::size_t first_parameter = 0;
    Backend::Memory output, output_gradient;
  };
  void make_room(std::size_t batch);
  void fill(const Dataset& data, const Samples& from, std::span<const std::uint32_t> indices);
  void forward(std::size_t batch);
  std::span<const float> parameters_of(std::size_t layer) const;
  Matrix output(std::size_t layer, std::size_t batch) const;
  Matrix output_gradient(std::size_t layer, std::size_t batch) const;
  ConstMatrix input(std::size_t layer, std::size_t batch) const;
  void backward(std::size_t layer, std::size_t batch, Into into);
  std::span<float> gradient_of(std::size_t layer);

  Backend& backend_;
  std::size_t inputs_;
  Layers layers_;
  std::vector<Place> places_;
  std::vector<std::size_t> with_parameters_;  // indices of the layers that have parameters
  std::size_t parameter_count_ = 0, room_ = 0;
  Backend::Memory parameters_, gradient_, input_;
  Backend::Memory fresh_;  // a layer's gradient before it is added to the sum
  Backend::Labels labels_;
  std::vector<float> host_images_;
  std::vector<std::uint8_t> host_labels_;
  // Recorded kernels for each batch size: first the forward pass and the loss, then the backward pass in parts; each
  // part ends with a layer's gradient.
  std::map<std::pair<std::size_t, Into>, std::vector<Backend::Recording>> recordings_;
};

}  // namespace anello::trainer
