#include "trainer/epochs.hpp"

#include <anello/error.hpp>
#include <chrono>
#include <cmath>
#include <numeric>
#include <utility>

namespace anello::trainer {
namespace {

using std::chrono::steady_clock;

// Measures what this rank trains.
class Meter {
 public:
  explicit Meter(Run& run) : run_(run), before_(run.optimizer.communication()) {}

  void add_step(const Progress& done, std::span<const std::uint32_t> share) {
    metrics_.samples += double(share.size());
    metrics_.steps++;
    metrics_.add_used(done.epoch, done.step, share);
  }
  // Returns the metrics since the last call, or since construction.
  Metrics take() {
    const auto now = steady_clock::now();
    const DataParallel::Communication all = run_.optimizer.communication();
    metrics_.add(run_.model.take_score(), 0);
    metrics_.seconds = std::chrono::duration<double>(now - std::exchange(since_, now)).count();
    metrics_.exposed_seconds = all.exposed_seconds - before_.exposed_seconds;
    metrics_.hidden_seconds = all.hidden_seconds - before_.hidden_seconds;
    before_ = all;
    return std::exchange(metrics_, {});
  }

 private:
  Run& run_;
  Metrics metrics_;
  DataParallel::Communication before_;
  steady_clock::time_point since_ = steady_clock::now();
};

// Carries out step 5 with this rank's share of the batch, and counts it. The metrics of the samples stay in `meter`;
// but in an elastic job they become part of the progress, because a rank that ends would take its sums with it.
void train_step(Run& run, Progress& done, Meter& meter) {
  const auto share = run.sampler.share(done.step);
  run.optimizer.begin();
  for (std::size_t pass = 0; pass < run.options.accumulate; pass++) {
    const Phase phase(run.world, "forward and backward");
    const auto [first, last] = part_of(share.size(), int(pass), int(run.options.accumulate));
    const auto part = std::span(share).subspan(first, last - first);
    const auto into = pass == 0 ? Model::Into::fresh : Model::Into::sum;
    run.model.train(
        run.data, run.data.train, part, [&](std::size_t k) { run.optimizer.ready(k); }, into);
  }
  run.optimizer.reduce();
  meter.add_step(done, share);
  const Metrics trained = run.job != nullptr ? meter.take().over_ranks(run.world) : Metrics();
  const std::size_t count = done.epoch * run.sampler.steps() + done.step;
  run.report.step(done.epoch + 1, done.step, run.sampler.steps());
  run.commit([&] {
    run.optimizer.apply(run.rate.at(count), count + 1);
    done.trained.add(trained);
    done.step++;
  });
}

void require_finite(double loss, std::size_t epoch) {
  if (!std::isfinite(loss))
    throw Error(ErrorCode::configuration,
                "training diverged in epoch " + std::to_string(epoch + 1) + "; give a smaller --lr");
}

// Trains to the end of the epoch. Returns false if the ranks stop before the end. In both cases `done` then has the
// metrics of this rank, or in an elastic job those of all ranks.
bool train_epoch(Run& run, Progress& done) {
  Meter meter(run);
  bool stop = false;
  run.sampler.begin_epoch(done.epoch);
  while (!stop && done.step < run.sampler.steps()) {
    train_step(run, done, meter);
    stop = run.stop.after_step();
  }
  if (run.job == nullptr) done.trained.add(meter.take());
  require_finite(done.trained.loss_sum, done.epoch);
  return !stop;
}

Metrics trained_on_all_ranks(Run& run, const Progress& done) {
  return run.job != nullptr ? done.trained : done.trained.over_ranks(run.world);
}

// Evaluates this rank's part of the test samples in small batches.
Metrics evaluate_part(Run& run) {
  constexpr std::size_t kBatch = 256;
  const Phase phase(run.world, "evaluation");
  const auto [first, last] = part_of(run.data.test.size(), run.world.rank(), run.world.size());
  Metrics metrics;
  for (std::size_t at = first; at < last; at += kBatch) {
    std::vector<std::uint32_t> indices(std::min(kBatch, last - at));
    std::iota(indices.begin(), indices.end(), std::uint32_t(at));
    run.model.evaluate(run.data, run.data.test, indices);
  }
  metrics.add(run.model.take_score(), last - first);
  return metrics;
}

}  // namespace

Metrics evaluate(Run& run) {
  return evaluate_part(run).over_ranks(run.world);
}

bool train_epochs(Run& run, Progress& done, std::optional<Metrics>& tested) {
  while (done.epoch < run.options.epochs) {
    if (!train_epoch(run, done)) {
      run.checkpoint.save({done.epoch, done.step, trained_on_all_ranks(run, done)});
      run.report.stopped(done, run.sampler.steps());
      return false;
    }
    const Metrics own = evaluate_part(run);
    require_finite(own.loss_sum, done.epoch);

    // 7. Write a checkpoint on rank 0 only, because all ranks hold the same parameters.
    run.checkpoint.save({.epoch = done.epoch + 1});

    // 8. Average the metrics over all ranks.
    const Metrics trained = trained_on_all_ranks(run, done);
    tested = own.over_ranks(run.world);
    const std::size_t epoch = done.epoch + 1, steps = run.sampler.steps();
    run.report.epoch({epoch, steps, trained, *tested, run.rate.at(epoch * steps - 1)});
    if (run.job != nullptr) run.world.barrier({.name = "epoch"});
    run.commit([&] { done = {.epoch = epoch}; });
  }
  return true;
}

}  // namespace anello::trainer
