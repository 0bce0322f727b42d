#include "trainer/shared_checkpoint.hpp"

#include <algorithm>

namespace anello::trainer {

SharedCheckpoint::SharedCheckpoint(World& world, const TrainOptions& options, Backend& backend,
                                   std::span<const std::span<float>> state, DataParallel& optimizer, HeldLock& held)
    : world_(world),
      options_(options),
      backend_(backend),
      state_(state),
      optimizer_(optimizer),
      facts_(options.facts(world.size())),
      held_(held) {
  if (world_.rank() != 0) held_.lock.reset();
  if (world_.rank() != 0 || options_.checkpoint.empty()) return;
  require_writable(options_.checkpoint);
  if (!held_.lock) held_.lock.emplace(options_.checkpoint, world_.host(0), held_.patience);
}

Restored SharedCheckpoint::restore() {
  if (options_.resume == "no") return {};
  Residuals residuals;
  Restored restored;
  if (world_.rank() == 0) restored = read(residuals);
  std::uint64_t done[] = {restored.progress.epoch, restored.progress.step};
  world_.broadcast(done, 0, {.name = "progress"});
  restored.progress.epoch = done[0];
  restored.progress.step = done[1];
  optimizer_.scatter_residuals(residuals);
  return restored;
}

Restored SharedCheckpoint::restore_alone() {
  Residuals none;
  return options_.resume == "no" ? Restored() : read(none);
}

Restored SharedCheckpoint::read(Residuals& residuals) {
  if (options_.resume == "auto" && !std::filesystem::exists(options_.checkpoint)) return {};
  SavedState saved = read_checkpoint(options_.checkpoint, facts_.lasting, backend_, state_);
  Restored restored{
      .found = true, .progress = saved.progress, .ranks_with_residuals = int(saved.residuals.size()), .changed = {}};
  for (const auto& [option, value] : facts_.adjustable) {
    const auto before = std::ranges::find(saved.adjustable, option, [](const auto& fact) { return fact.first; });
    if (before != saved.adjustable.end() && before->second != value)
      restored.changed.push_back(option + " was " + before->second + ", is now " + value);
  }
  residuals = std::move(saved.residuals);
  return restored;
}

void SharedCheckpoint::save(const Progress& progress) {
  if (options_.checkpoint.empty()) return;
  const Residuals residuals = optimizer_.gather_residuals();
  if (world_.rank() == 0) write_checkpoint(options_.checkpoint, facts_, progress, backend_, state_, residuals);
}

}  // namespace anello::trainer
