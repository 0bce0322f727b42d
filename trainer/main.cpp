// anello-train: the eight steps that turn a training program for one process into data-parallel training on many.
// Every rank runs this same program; only the calls on `world` connect them.
#include <anello/anello.hpp>
#include <atomic>
#include <csignal>
#include <iostream>
#include <optional>

#include "trainer/data_parallel.hpp"
#include "trainer/dataset.hpp"
#include "trainer/device.hpp"
#include "trainer/elastic_training.hpp"
#include "trainer/epochs.hpp"
#include "trainer/require_equal.hpp"
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

// Loads and makes everything before it joins the job, because the others wait for a process that has joined.
Ending train_elastic(const Settings& settings, const TrainOptions& options) {
  ElasticTraining training(options, std::cout, terminal_columns(settings), asked_to_stop);
  elastic::Job job(training.state(), {}, settings);
  if (!job.enter()) return Ending::not_needed;
  if (!options.checkpoint.empty()) stop_on_sigterm();
  return training.run(job);
}

// Returns the exit code of the shell.
int exit_code(Ending ending) {
  return ending == Ending::stopped ? 128 + SIGTERM : 0;  // as if the signal had ended the process
}

}  // namespace

int main(int argc, char** argv) {
  std::string program = "anello-train";  // the rank is added when it is assigned
  int given_rank = -1;
  try {
    const Settings settings = Settings::from_environment();
    given_rank = settings.rank;
    const TrainOptions options = parse_options(argc, argv);
    if (settings.elastic && !options.elastic)
      throw Usage{2, "anello-train: this job is elastic (--min-np, --max-np); give --elastic to train in it"};
    if (options.elastic) return exit_code(train_elastic(settings, options));

    // 1. Initialise: join the ranks that a launcher started; alone, this is a world of one.
    World world = init(settings);
    program += ": rank " + std::to_string(world.rank());
    if (!options.checkpoint.empty()) stop_on_sigterm();
    try {
      const Ending ending = train(world, options, std::cout, terminal_columns(settings), asked_to_stop);
      world.finish();
      return exit_code(ending);
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
  HeldLock lock;
  SharedCheckpoint checkpoint(world, options, backend, state, optimizer, lock);
  Restored restored = checkpoint.restore();
  device->broadcast(std::vector<Tensor>(state.begin(), state.end()), 0, {.name = "parameters and optimizer state"});

  if (!options.timeline.empty()) world.start_timeline(options.timeline);
  report.start(backend.name(), data, model.parameters().size(), rate);
  report.resumed(restored, checkpoint.lock_missing());
  Run run{world, options,   data,   sampler,    rate,
          model, optimizer, report, checkpoint, StopCheck(world, options.checkpoint.empty() ? nullptr : &stop)};
  std::optional<Metrics> tested;
  try {
    if (!train_epochs(run, restored.progress, tested)) return Ending::stopped;
  } catch (const std::exception& error) {
    // Aborts before the optimizer's destructor runs, because the destructor would make the other ranks fail without
    // this reason.
    world.abort(error.what());
    throw;
  }
  if (!tested) tested = evaluate(run);
  const std::uint64_t hash = model.parameter_hash();
  require_equal(world, hash, "parameters");
  report.end(*tested, hash);
  return Ending::complete;
}

}  // namespace anello::trainer
