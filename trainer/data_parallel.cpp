#include "trainer/data_parallel.hpp"

#include <chrono>

#include "ring/base/check.hpp"
#include "ring/base/text.hpp"

namespace anello::trainer {

DType wire_type(std::string_view compression) {
  if (compression == "fp16") return DType::f16;
  if (compression == "bf16") return DType::bf16;
  ANELLO_CHECK(compression == "none");
  return DType::f32;
}

DataParallel::DataParallel(World& world, Backend& backend, std::unique_ptr<Optimizer> optimizer,
                           std::size_t global_batch, DType wire)
    : world_(world), backend_(backend), optimizer_(std::move(optimizer)), global_batch_(global_batch), wire_(wire) {}

void DataParallel::step(std::span<float> parameters, std::span<float> gradient, double rate, std::uint64_t count) {
  backend_.scale(gradient, 1.0F / float(global_batch_));
  const auto start = std::chrono::steady_clock::now();
  world_.allreduce(gradient, Op::sum, {.name = "gradients", .wire = wire_});
  communication_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const Phase phase(world_, "optimizer");
  optimizer_->step(parameters, gradient, float(rate), count);
}

void require_equal(World& world, std::uint64_t value, std::string_view what) {
  const auto own = std::int64_t(value);
  std::vector<std::int64_t> all(std::size_t(world.size()));
  world.all_gather(std::span(&own, 1), all, {.name = what});
  for (int rank = 1; rank < world.size(); rank++)
    if (all[std::size_t(rank)] != all[0])
      throw Error(Code::mismatch,
                  text(what, " of rank ", rank, " (", world.host(rank), ") differ from those of rank 0 (",
                       world.host(0), "): ", std::hex, all[std::size_t(rank)], " there, ", all[0], " here"),
                  rank);
}

}  // namespace anello::trainer
