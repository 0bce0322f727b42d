#include "trainer/elastic_training.hpp"

#include <anello/error.hpp>
#include <bit>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "trainer/hash.hpp"
#include "trainer/report.hpp"
#include "trainer/require_equal.hpp"

namespace anello::trainer {
namespace {

// If rank 0 was lost but still runs, it ends, or is killed, within this time.
constexpr std::chrono::milliseconds kSuccession{60000};

std::string text_of(const Progress& progress) {
  std::string text = std::to_string(progress.epoch) + ' ' + std::to_string(progress.step);
  for (const double sum : progress.trained.sums()) text += ' ' + std::to_string(std::bit_cast<std::uint64_t>(sum));
  return text;
}

Progress progress_of(std::string_view text) {
  std::istringstream in{std::string(text)};
  Progress progress;
  Metrics::Sums sums{};
  in >> progress.epoch >> progress.step;
  for (double& sum : sums) {
    std::uint64_t bits = 0;
    in >> bits;
    sum = std::bit_cast<double>(bits);
  }
  progress.trained = Metrics::of(sums);
  return progress;
}

// Adds an entry that matters only by its name: processes whose entries have different names do not train together.
void add_fact(elastic::State& state, const std::string& fact) {
  state.add_small(
      fact, [] { return std::string(); }, [](std::string_view) {});
}

}  // namespace

ElasticTraining::ElasticTraining(const TrainOptions& options, std::ostream& out, int columns,
                                 const std::atomic<bool>& stop)
    : options_(options),
      out_(out),
      columns_(columns),
      stop_(stop),
      data_(load_dataset(options.dataset, options.data)),
      rate_{options.base_rate(), *options.global_batch, options.warmup_epochs * sampler(0, 1).steps()},
      model_(*backend_, data_.image_size(), make_mlp(data_.image_size(), options.hidden, data_.classes), options.seed),
      optimizer_(make_optimizer(options.optimizer, *backend_, model_.parameters().size())) {
  for (const auto& [option, value] : options.shared(1)) add_fact(state_, option + ' ' + value);
  add_fact(state_, "training data " + hex(data_.hash()));
  tensors_ = optimizer_->state();
  tensors_.insert(tensors_.begin(), model_.parameters());
  for (std::size_t i = 0; i < tensors_.size(); i++)
    state_.add(i == 0 ? "parameters" : "optimizer state " + std::to_string(i), std::as_writable_bytes(tensors_[i]));
  state_.add_small(
      "progress", [this] { return text_of(progress_); },
      [this](std::string_view text) { progress_ = progress_of(text); });
}

Sampler ElasticTraining::sampler(int rank, int size) const {
  return {data_.train.size(), *options_.global_batch, options_.sampling, options_.seed, rank, size};
}

Ending ElasticTraining::run(elastic::Job& job) {
  do {
    try {
      return train_in_world(job);
    } catch (const elastic::Job::WorldEnds&) {
    } catch (const Error& error) {
      // Before the training begins, rank 0 aborts its world if it cannot read or lock the checkpoint. Another process
      // as rank 0 could not do this either.
      const bool cannot_begin = !state_.holds() && error.code() == ErrorCode::aborted;
      if (cannot_begin || !job.survives(error)) throw;
    }
    lock_.patience = kSuccession;
  } while (job.enter());
  return Ending::not_needed;
}

Ending ElasticTraining::train_in_world(elastic::Job& job) {
  World& world = job.world();
  const auto device = make_host_device(world, backend_);
  const auto layers = model_.layer_gradients();
  const std::vector<Gradient> gradients = list_of(layers);
  DataParallel optimizer(world, *device, model_.parameters(), model_.gradient(), gradients, optimizer_,
                         averaging_of(options_, *options_.global_batch));
  std::optional<SharedCheckpoint> checkpoint;
  Restored restored;
  try {
    checkpoint.emplace(world, options_, *backend_, tensors_, optimizer, lock_);
    if (world.rank() == 0 && !state_.holds()) restored = checkpoint->restore_alone();
  } catch (const std::exception& error) {
    world.abort(error.what());
    throw;
  }
  if (restored.found) {
    progress_ = restored.progress;
    state_.restored();
  }
  job.synchronize();
  static_cast<void>(model_.take_score());  // clears the sums of a step that has failed

  const bool begins = job.change().revision == 0;
  Report report(world, options_, out_, columns_, !begins);
  if (begins) {
    report.start(backend_->name(), data_, model_.parameters().size(), rate_);
    report.resumed(restored, checkpoint->lock_missing());
  }
  report.world(job.change(), progress_);
  if (!options_.timeline.empty()) world.start_timeline(options_.timeline);
  Sampler shares = sampler(world.rank(), world.size());
  Run run{.world = world,
          .options = options_,
          .data = data_,
          .sampler = shares,
          .rate = rate_,
          .model = model_,
          .optimizer = optimizer,
          .report = report,
          .checkpoint = *checkpoint,
          .stop = StopCheck(world, options_.checkpoint.empty() ? nullptr : &stop_),
          .job = &job};
  std::optional<Metrics> tested;
  const bool complete = train_epochs(run, progress_, tested);
  if (complete) {
    if (!tested) tested = evaluate(run);
    const std::uint64_t hash = model_.parameter_hash();
    require_equal(world, hash, "parameters");
    report.end(*tested, hash);
  } else {
    world.barrier({.name = "stopped"});  // rank 0 has saved the state
  }
  job.finish();
  return complete ? Ending::complete : Ending::stopped;
}

}  // namespace anello::trainer
