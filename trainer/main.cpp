// anello-train: the eight steps that turn a training program for one process into data-parallel training on many.
// Every rank runs this same program; only the calls on `world` connect them.
#include <anello/anello.hpp>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <iostream>
#include <numeric>
#include <optional>

#include "trainer/data_parallel.hpp"
#include "trainer/dataset.hpp"
#include "trainer/device.hpp"
#include "trainer/learning_rate.hpp"
#include "trainer/metrics.hpp"
#include "trainer/model.hpp"
#include "trainer/report.hpp"
#include "trainer/require_equal.hpp"
#include "trainer/sampler.hpp"
#include "trainer/shared_checkpoint.hpp"
#include "trainer/stop_check.hpp"
#include "trainer/train.hpp"

using namespace anello;
using namespace anello::trainer;

namespace {

std::atomic<bool> asked_to_stop = false;
static_assert(std::atomic<bool>::is_always_lock_free);  // a signal handler writes to the flag

void stop_on_sigterm() {
  struct sigaction action {};
  action.sa_handler = [](int) { asked_to_stop = true; };
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  std::string program = "anello-train";  // the rank is added when it is assigned
  int given_rank = -1;
  try {
    const Settings settings = Settings::from_environment();
    given_rank = settings.rank;
    const TrainOptions options = parse_options(argc, argv);

    // 1. Initialise: join the ranks that a launcher started; alone, this is a world of one.
    World world = init(settings);
    program += ": rank " + std::to_string(world.rank());
    if (!options.checkpoint.empty()) stop_on_sigterm();
    try {
      const Ending ending = train(world, options, std::cout, terminal_columns(settings), asked_to_stop);
      world.finish();
      // The shell's exit code for a process that the signal ended.
      return ending == Ending::stopped ? 128 + SIGTERM : 0;
    } catch (const std::exception& error) {
      world.abort(error.what());  // all ranks then report this error
      throw;
    }
  } catch (const Usage& usage) {
    if (given_rank <= 0)
      (usage.exit_code == 0 ? std::cout : std::cerr) << usage.text + "\n";  // printed by only one rank
    return usage.exit_code;
  } catch (const std::exception& error) {
    std::cerr << program + ": " + error.what() + "\n";
    return 1;
  }
}

namespace anello::trainer {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Evaluates this rank's part of the test samples in small batches.
Metrics evaluate(Model& model, const Dataset& data, const World& world) {
  constexpr std::size_t kBatch = 256;
  const auto [first, last] = part_of(data.test.size(), world.rank(), world.size());
  Metrics metrics;
  for (std::size_t at = first; at < last; at += kBatch) {
    std::vector<std::uint32_t> indices(std::min(kBatch, last - at));
    std::iota(indices.begin(), indices.end(), std::uint32_t(at));
    model.evaluate(data, data.test, indices);
  }
  metrics.add(model.take_score(), last - first);
  return metrics;
}

// The objects that the steps of a training need.
struct Run {
  World& world;
  const TrainOptions& options;
  const Dataset& data;
  Sampler& sampler;
  const LearningRate& rate;
  Model& model;
  DataParallel& optimizer;
  Report& report;
  StopCheck stop;
};

// Carries out step 5 with this rank's share of the batch. Returns the number of samples in that share.
std::size_t train_step(Run& run, std::size_t epoch, std::size_t step) {
  const std::size_t count = epoch * run.sampler.steps() + step;
  const auto share = run.sampler.share(step);
  run.optimizer.begin();
  for (std::size_t pass = 0; pass < run.options.accumulate; pass++) {
    const Phase phase(run.world, "forward and backward");
    const auto [first, last] = part_of(share.size(), int(pass), int(run.options.accumulate));
    const auto part = std::span(share).subspan(first, last - first);
    const auto into = pass == 0 ? Model::Into::fresh : Model::Into::sum;
    run.model.train(
        run.data, run.data.train, part, [&](std::size_t k) { run.optimizer.ready(k); }, into);
  }
  run.optimizer.step(run.rate.at(count), count + 1);
  run.report.step(epoch + 1, step, run.sampler.steps());
  return share.size();
}

void require_finite(double loss, std::size_t epoch) {
  if (!std::isfinite(loss))
    throw Error(ErrorCode::configuration,
                "training diverged in epoch " + std::to_string(epoch + 1) + "; give a smaller --lr");
}

// Trains to the end of the epoch. Returns false if the ranks stop before the end. In both cases `done` includes this
// rank's metrics afterwards.
bool train_epoch(Run& run, Progress& done) {
  const auto start = std::chrono::steady_clock::now();
  const auto before = run.optimizer.communication();
  const std::size_t first = done.step;
  std::size_t samples = 0;
  bool stop = false;
  run.sampler.begin_epoch(done.epoch);
  while (!stop && done.step < run.sampler.steps()) {
    samples += train_step(run, done.epoch, done.step++);
    stop = run.stop.after_step();
  }
  Metrics& trained = done.trained;
  trained.add(run.model.take_score(), samples);
  trained.seconds += seconds_since(start);
  trained.exposed_seconds += run.optimizer.communication().exposed_seconds - before.exposed_seconds;
  trained.hidden_seconds += run.optimizer.communication().hidden_seconds - before.hidden_seconds;
  trained.steps += double(done.step - first);
  require_finite(trained.loss_sum, done.epoch);
  return !stop;
}

// Trains from `done` to the end of the last epoch, and returns true. If the ranks are asked to stop before that, saves
// a checkpoint of the steps so far, and returns false.
bool train_epochs(Run& run, SharedCheckpoint& checkpoint, Progress done, std::optional<Metrics>& tested) {
  while (done.epoch < run.options.epochs) {
    if (!train_epoch(run, done)) {
      checkpoint.save({done.epoch, done.step, done.trained.over_ranks(run.world)});
      run.report.stopped(done, run.sampler.steps());
      return false;
    }
    {
      const Phase phase(run.world, "evaluation");
      tested = evaluate(run.model, run.data, run.world);
    }
    require_finite(tested->loss_sum, done.epoch);

    // 7. Write a checkpoint on rank 0 only, because all ranks hold the same parameters.
    checkpoint.save({.epoch = done.epoch + 1});

    // 8. Average the metrics over all ranks.
    const Metrics trained = done.trained.over_ranks(run.world);
    tested = tested->over_ranks(run.world);
    done = {.epoch = done.epoch + 1};
    run.report.epoch({done.epoch, trained, *tested, run.rate.at(done.epoch * run.sampler.steps() - 1)});
  }
  return true;
}

std::vector<Gradient> list_of(const std::vector<Model::LayerGradient>& layers) {
  std::vector<Gradient> gradients;
  for (const auto& layer : layers) gradients.push_back({layer.name, layer.values});
  return gradients;
}

Averaging averaging_of(const TrainOptions& options, std::size_t global_batch) {
  return {.global_batch = global_batch,
          .wire = wire_type(options.compression),
          .error_feedback = options.feedback,
          .max_norm = options.clip > 0 ? std::optional(options.clip) : std::nullopt,
          .accumulation_passes = int(options.accumulate),
          .tune_buckets = options.tune_buckets};
}

}  // namespace

Ending train(World& world, const TrainOptions& options, std::ostream& out, int columns, const std::atomic<bool>& stop) {
  Report report(world, options, out, columns);
  require_equal(world, options.shared(world.size()));

  // 2. Pick the device by local rank, so that each rank of a host has its own device if there are enough.
  const auto device = pick_device(options.device, world, !options.no_graphs);

  // 3. Shard the data: all ranks make the same permutation, and each rank takes its share of every global batch.
  const Dataset data = load_dataset(options.dataset, options.data);
  require_equal(world, data.hash(), "training data");
  const std::size_t global_batch = options.global_batch_of(world.size());
  Sampler sampler(data.train.size(), global_batch, options.sampling, options.seed, world.rank(), world.size());

  // 4. Scale the learning rate with the batch of the whole world.
  const LearningRate rate{options.base_rate(), global_batch, options.warmup_epochs * sampler.steps()};

  // 5. Wrap the optimizer: it uses the gradient averaged over all ranks, which is reduced during the backward pass.
  Backend& backend = device->backend();
  Model model(backend, data.image_size(), make_mlp(data.image_size(), options.hidden, data.classes), options.seed);
  const auto layers = model.layer_gradients();
  const std::vector<Gradient> gradients = list_of(layers);
  DataParallel optimizer(world, *device, model.parameters(), model.gradient(), gradients,
                         make_optimizer(options.optimizer, backend, model.parameters().size()),
                         averaging_of(options, global_batch));

  // 6. Broadcast parameters and optimizer state from rank 0; only rank 0 reads the checkpoint to resume from.
  auto state = optimizer.state();
  state.insert(state.begin(), model.parameters());
  SharedCheckpoint checkpoint(world, options, backend, state, optimizer);
  const Restored restored = checkpoint.restore();
  device->broadcast(std::vector<Tensor>(state.begin(), state.end()), 0, {.name = "parameters and optimizer state"});

  if (!options.timeline.empty()) world.start_timeline(options.timeline);
  report.start(backend.name(), data, model.parameters().size(), rate);
  report.resumed(restored, checkpoint.lock_missing());
  Run run{world,     options, data,
          sampler,   rate,    model,
          optimizer, report,  StopCheck(world, options.checkpoint.empty() ? nullptr : &stop)};
  std::optional<Metrics> tested;
  try {
    if (!train_epochs(run, checkpoint, restored.progress, tested)) return Ending::stopped;
  } catch (const std::exception& error) {
    // Comes before the optimizer's destructor, which would fail the other ranks without this reason.
    world.abort(error.what());
    throw;
  }
  if (!tested) tested = evaluate(model, data, world).over_ranks(world);
  const std::uint64_t hash = model.parameter_hash();
  require_equal(world, hash, "parameters");
  report.end(*tested, hash);
  return Ending::complete;
}

}  // namespace anello::trainer
