#include "trainer/model.hpp"

#include "trainer/hash.hpp"

namespace anello::trainer {
namespace {
Backend::Memory none() {
  return {nullptr, [](float*) {}};
}
}  // namespace

Model::Model(Backend& backend, std::size_t inputs, Layers layers, std::uint64_t seed)
    : backend_(backend),
      inputs_(inputs),
      layers_(std::move(layers)),
      parameters_(none()),
      gradient_(none()),
      input_(none()),
      fresh_(none()) {
  for (const auto& layer : layers_) {
    places_.push_back({parameter_count_, none(), none()});
    parameter_count_ += layer->parameter_count();
    gradient_count_ += layer->parameter_count() > 0 ? 1 : 0;
  }
  parameters_ = backend_.allocate(parameter_count_);
  gradient_ = backend_.allocate(parameter_count_);

  std::vector<float> initial(parameter_count_);
  Random random(seed, Stream::weights);
  for (std::size_t i = 0; i < layers_.size(); i++)
    layers_[i]->initialise(std::span(initial).subspan(places_[i].first_parameter, layers_[i]->parameter_count()),
                           random);
  backend_.copy_in(initial, parameters_.get());
}

void Model::make_room(std::size_t batch) {
  images_.resize(batch * inputs_);
  labels_.resize(batch);
  if (batch <= room_) return;
  room_ = batch;
  input_ = backend_.allocate(batch * inputs_);
  for (std::size_t i = 0; i < layers_.size(); i++) {
    places_[i].output = backend_.allocate(batch * layers_[i]->output_size());
    places_[i].output_gradient = backend_.allocate(batch * layers_[i]->output_size());
  }
}

std::span<const float> Model::parameters_of(std::size_t layer) const {
  return {parameters_.get() + places_[layer].first_parameter, layers_[layer]->parameter_count()};
}
Matrix Model::output(std::size_t layer, std::size_t batch) const {
  return {places_[layer].output.get(), batch, layers_[layer]->output_size()};
}
Matrix Model::output_gradient(std::size_t layer, std::size_t batch) const {
  return {places_[layer].output_gradient.get(), batch, layers_[layer]->output_size()};
}
ConstMatrix Model::input(std::size_t layer, std::size_t batch) const {
  return layer == 0 ? Matrix{input_.get(), batch, inputs_} : output(layer - 1, batch);
}

std::uint64_t Model::parameter_hash() const {
  std::vector<float> host(parameter_count_);
  backend_.copy_out(parameters_.get(), host);
  return hash64(std::as_bytes(std::span(host)));
}

void Model::evaluate(const Dataset& data, const Samples& from, std::span<const std::uint32_t> indices) {
  const std::size_t batch = indices.size();
  make_room(batch);
  data.gather(from, indices, images_, labels_);
  backend_.copy_in(images_, input_.get());
  for (std::size_t i = 0; i < layers_.size(); i++)
    layers_[i]->forward(backend_, parameters_of(i), input(i, batch), output(i, batch));
  const std::size_t last = layers_.size() - 1;
  backend_.cross_entropy(output(last, batch), labels_, output_gradient(last, batch));
}

std::span<float> Model::gradient_of(std::size_t layer) {
  return gradient().subspan(places_[layer].first_parameter, layers_[layer]->parameter_count());
}

std::vector<Model::LayerGradient> Model::layer_gradients() {
  std::vector<LayerGradient> all;
  for (std::size_t i = 0; i < layers_.size(); i++)
    if (const auto values = gradient_of(i); !values.empty()) all.push_back({"layer " + std::to_string(i), values});
  return all;
}

void Model::train(const Dataset& data, const Samples& from, std::span<const std::uint32_t> indices, const Ready& ready,
                  Into into) {
  evaluate(data, from, indices);
  backward(indices.size(), into, ready);
}

void Model::backward(std::size_t batch, Into into, const Ready& ready) {
  std::size_t number = gradient_count_;
  if (into == Into::sum && !fresh_) fresh_ = backend_.allocate(parameter_count_);
  for (std::size_t i = layers_.size(); i-- > 0;) {
    const std::span<float> whole = gradient_of(i);
    const std::span<float> place = into == Into::sum ? std::span(fresh_.get(), whole.size()) : whole;
    layers_[i]->backward(backend_, parameters_of(i), input(i, batch), output(i, batch), output_gradient(i, batch),
                         place, i == 0 ? Matrix{} : output_gradient(i - 1, batch));
    if (whole.empty()) continue;
    if (into == Into::sum) backend_.add(place, whole);
    ready(--number);
  }
}

}  // namespace anello::trainer
