#include "trainer/data_parallel.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <utility>

namespace anello::trainer {

std::optional<DType> wire_type(std::string_view compression) {
  if (compression == "fp16") return DType::f16;
  if (compression == "bf16") return DType::bf16;
  if (compression != "none") throw std::logic_error("unknown compression");
  return std::nullopt;
}

Averaging averaging_of(const TrainOptions& options, std::size_t global_batch) {
  return {.global_batch = global_batch,
          .wire = wire_type(options.compression),
          .error_feedback = options.feedback,
          .max_norm = options.clip > 0 ? std::optional(options.clip) : std::nullopt,
          .accumulation_passes = int(options.accumulate),
          .tune_buckets = options.tune_buckets};
}

std::vector<Gradient> list_of(const std::vector<Model::LayerGradient>& layers) {
  std::vector<Gradient> gradients;
  for (const auto& layer : layers) gradients.push_back({layer.name, layer.values});
  return gradients;
}

DataParallel::DataParallel(World& world, Device& device, std::span<float> parameters, std::span<float> gradient,
                           std::span<const Gradient> gradients, std::shared_ptr<Optimizer> optimizer,
                           const Averaging& averaging)
    : world_(world),
      parameters_(parameters),
      gradient_(gradient),
      optimizer_(std::move(optimizer)),
      global_batch_(averaging.global_batch),
      gradients_(device.sum(gradients, {.combine = GradientOptions::Combine::sum,
                                        .tune_buckets = averaging.tune_buckets,
                                        .wire = averaging.wire,
                                        .error_feedback = averaging.error_feedback,
                                        .max_norm = averaging.max_norm,
                                        .accumulation_passes = averaging.accumulation_passes})) {}

void DataParallel::reduce() {
  const StepStats done = gradients_->finish();
  const std::chrono::duration<double> exposed = done.exposed, all = done.communicated;
  communication_.exposed_seconds += exposed.count();
  communication_.hidden_seconds += std::max(0.0, all.count() - exposed.count());
}

void DataParallel::apply(double rate, std::uint64_t count) {
  const Phase phase(world_, "optimizer");
  optimizer_->step(parameters_, gradient_, float(rate), count);
}

Residuals DataParallel::gather_residuals() {
  std::vector<float> own;
  for (const auto& residual : gradients_->residuals()) own.insert(own.end(), residual.begin(), residual.end());
  if (own.empty()) return {};
  std::vector<float> all(world_.rank() == 0 ? own.size() * std::size_t(world_.size()) : 0);
  world_.gather(own, all, 0, {.name = "residuals"});
  Residuals by_rank;
  for (auto at = all.begin(); at != all.end(); at += std::ptrdiff_t(own.size()))
    by_rank.emplace_back(at, at + std::ptrdiff_t(own.size()));
  return by_rank;
}

void DataParallel::scatter_residuals(const Residuals& saved) {
  const auto residuals = gradients_->residuals();
  std::vector<float> own;
  for (const auto& residual : residuals) own.resize(own.size() + residual.size());
  if (own.empty()) return;
  std::vector<float> all(world_.rank() == 0 ? own.size() * std::size_t(world_.size()) : 0);
  for (std::size_t rank = 0; world_.rank() == 0 && rank < saved.size(); rank++) {
    float* const to = all.data() + rank % std::size_t(world_.size()) * own.size();
    std::transform(saved[rank].begin(), saved[rank].end(), to, to, std::plus<>());
  }
  world_.scatter(all, own, 0, {.name = "residuals"});
  auto from = own.cbegin();
  for (const auto& residual : residuals) {
    std::copy_n(from, residual.size(), residual.begin());
    from += std::ptrdiff_t(residual.size());
  }
}

}  // namespace anello::trainer
