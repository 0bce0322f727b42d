#include "trainer/data_parallel.hpp"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>
#include <utility>

#include "trainer/hash.hpp"

namespace anello::trainer {

std::optional<DType> wire_type(std::string_view compression) {
  if (compression == "fp16") return DType::f16;
  if (compression == "bf16") return DType::bf16;
  if (compression != "none") throw std::logic_error("unknown compression");
  return std::nullopt;
}

DataParallel::DataParallel(World& world, Device& device, std::span<float> parameters, std::span<float> gradient,
                           std::span<const Gradient> gradients, std::unique_ptr<Optimizer> optimizer,
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

void DataParallel::step(double rate, std::uint64_t count) {
  const StepStats done = gradients_->finish();
  const std::chrono::duration<double> exposed = done.exposed, all = done.communicated;
  communication_.exposed_seconds += exposed.count();
  communication_.hidden_seconds += std::max(0.0, all.count() - exposed.count());
  const Phase phase(world_, "optimizer");
  optimizer_->step(parameters_, gradient_, float(rate), count);
}

void require_equal(World& world, std::uint64_t value, std::string_view what) {
  const auto own = std::int64_t(value);
  std::vector<std::int64_t> all(std::size_t(world.size()));
  world.allgather(std::span(&own, 1), all, {.name = what});
  for (int rank = 1; rank < world.size(); rank++)
    if (all[std::size_t(rank)] != all[0])
      throw Error(ErrorCode::mismatch,
                  std::string(what) + " of rank " + std::to_string(rank) + " (" + world.host(rank) +
                      ") differ from those of rank 0 (" + world.host(0) + "): " +
                      hex(std::uint64_t(all[std::size_t(rank)])) + " there, " + hex(std::uint64_t(all[0])) + " here",
                  rank);
}

}  // namespace anello::trainer
