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
      fresh_(none()),
      labels_(nullptr, [](std::uint8_t*) {}) {
  for (const auto& layer : layers_) {
    if (layer->parameter_count() > 0) with_parameters_.push_back(places_.size());
    places_.push_back({parameter_count_, none(), none()});
    parameter_count_ += layer->parameter_count();
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
  if (batch <= room_) return;
  room_ = batch;
  recordings_.clear();  // destroyed first, because they use the memory that is released here
  labels_ = backend_.allocate_labels(batch);
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

void Model::fill(const Dataset& data, const Samples& from, std::span<const std::uint32_t> indices) {
  make_room(indices.size());
  const Chosen chosen{from.pixels, from.labels, float(data.mean), float(1 / data.deviation), indices};
  if (backend_.gather(chosen, {input_.get(), indices.size(), inputs_}, labels_.get())) return;
  host_images_.resize(indices.size() * inputs_);
  host_labels_.resize(indices.size());
  data.gather(from, indices, host_images_, host_labels_);
  backend_.copy_in(host_images_, input_.get());
  backend_.copy_in(host_labels_, labels_.get());
}

void Model::forward(std::size_t batch) {
  for (std::size_t i = 0; i < layers_.size(); i++)
    layers_[i]->forward(backend_, parameters_of(i), input(i, batch), output(i, batch));
  const std::size_t last = layers_.size() - 1;
  backend_.cross_entropy(output(last, batch), {labels_.get(), batch}, output_gradient(last, batch));
}

void Model::evaluate(const Dataset& data, const Samples& from, std::span<const std::uint32_t> indices) {
  fill(data, from, indices);
  forward(indices.size());
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
  fill(data, from, indices);
  if (into == Into::sum && !fresh_) fresh_ = backend_.allocate(parameter_count_);
  const std::size_t batch = indices.size();
  auto& parts = recordings_[{batch, into}];
  parts.resize(with_parameters_.size());
  for (std::size_t k = parts.size(), done = layers_.size(); k-- > 0; done = with_parameters_[k]) {
    const auto part = [&] {
      if (done == layers_.size()) forward(batch);
      for (std::size_t i = done; i-- > with_parameters_[k];) backward(i, batch, into);
    };
    backend_.repeat(parts[k], std::ref(part));
    ready(k);
  }
}

void Model::backward(std::size_t layer, std::size_t batch, Into into) {
  const std::span<float> whole = gradient_of(layer);
  const std::span<float> place = into == Into::sum ? std::span(fresh_.get(), whole.size()) : whole;
  layers_[layer]->backward(backend_, parameters_of(layer), input(layer, batch), output(layer, batch),
                           output_gradient(layer, batch), place,
                           layer == 0 ? Matrix{} : output_gradient(layer - 1, batch));
  if (into == Into::sum && !whole.empty()) backend_.add(place, whole);
}

}  // namespace anello::trainer
