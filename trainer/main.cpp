// anello-train: the eight steps that turn a training program for one process into data-parallel training on many.
// Every rank runs this same program; only the calls on `world` connect them.
#include <anello/anello.hpp>
#include <chrono>
#include <cmath>
#include <iostream>
#include <numeric>
#include <optional>

#include "trainer/checkpoint.hpp"
#include "trainer/data_parallel.hpp"
#include "trainer/dataset.hpp"
#include "trainer/device.hpp"
#include "trainer/learning_rate.hpp"
#include "trainer/metrics.hpp"
#include "trainer/model.hpp"
#include "trainer/report.hpp"
#include "trainer/sampler.hpp"
#include "trainer/train.hpp"

using namespace anello;
using namespace anello::trainer;

int main(int argc, char** argv) {
  std::string program = "anello-train";  // and the rank, once it is known
  int given_rank = -1;
  try {
    const Settings settings = Settings::from_environment();
    given_rank = settings.rank;
    const TrainOptions options = parse_options(argc, argv);

    // 1. Initialise: join the ranks that a launcher started; alone, this is a world of one.
    World world = init(settings);
    program += ": rank " + std::to_string(world.rank());
    try {
      train(world, options, std::cout, terminal_columns(settings));
      world.finish();
    } catch (const std::exception& error) {
      world.abort(error.what());  // all ranks then report this reason
      throw;
    }
    return 0;
  } catch (const Usage& usage) {
    if (given_rank <= 0)
      (usage.exit_code == 0 ? std::cout : std::cerr) << usage.text + "\n";  // once, not on every rank
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

// Evaluates this rank's part of the test samples, a few at a time.
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

}  // namespace

void train(World& world, const TrainOptions& options, std::ostream& out, int columns) {
  Report report(world, options, out, columns);
  require_equal(world, options.hash(world.size()), "training options");

  // 2. Pick the device by local rank, so that each rank of a host has its own as far as there are enough.
  const auto device = pick_device(options.device, world);

  // 3. Shard the data: all ranks shuffle in the same way, and each takes its share of every global batch.
  const Dataset data = load_dataset(options.dataset, options.data);
  require_equal(world, data.hash(), "training data");
  const std::size_t global_batch = options.global_batch_of(world.size());
  Sampler sampler(data.train.size(), global_batch, options.sampling, options.seed, world.rank(), world.size());

  // 4. Scale the learning rate with the batch of the whole world.
  const LearningRate rate{options.base_rate(), global_batch, options.warmup_epochs * sampler.steps()};

  // 5. Wrap the optimizer: it steps along the gradient averaged over all ranks, which travels during the backward pass.
  Backend& backend = device->backend();
  Model model(backend, data.image_size(), make_mlp(data.image_size(), options.hidden, data.classes), options.seed);
  const auto layers = model.layer_gradients();
  std::vector<Gradient> gradients;
  for (const auto& layer : layers) gradients.push_back({layer.name, layer.values});
  DataParallel optimizer(world, *device, model.parameters(), model.gradient(), gradients,
                         make_optimizer(options.optimizer, backend, model.parameters().size()),
                         {.global_batch = global_batch,
                          .wire = wire_type(options.compression),
                          .error_feedback = options.feedback,
                          .max_norm = options.clip > 0 ? std::optional(options.clip) : std::nullopt,
                          .accumulation_passes = int(options.accumulate),
                          .tune_buckets = options.tune_buckets});

  // 6. Broadcast parameters and optimizer state from rank 0; only rank 0 reads the checkpoint to resume from.
  auto state = optimizer.state();
  state.insert(state.begin(), model.parameters());
  const bool saves = world.rank() == 0 && !options.checkpoint.empty();
  if (saves) require_writable(options.checkpoint);
  std::uint64_t epoch = 0;
  if (saves && options.resume)
    epoch = read_checkpoint(options.checkpoint, options.lasting(world.size()), backend, state);
  world.broadcast(std::span(&epoch, 1), 0, {.name = "epoch"});
  device->broadcast(std::vector<Tensor>(state.begin(), state.end()), 0, {.name = "parameters and optimizer state"});

  if (!options.timeline.empty()) world.start_timeline(options.timeline);
  report.start(backend.name(), data, model.parameters().size(), rate);
  if (options.resume) report.resumed(epoch);
  std::optional<Metrics> tested;
  while (epoch < options.epochs) {
    Metrics trained;
    std::size_t samples = 0;
    const auto start = std::chrono::steady_clock::now();
    const auto before = optimizer.communication();
    sampler.begin_epoch(epoch);
    for (std::size_t step = 0; step < sampler.steps(); step++) {
      const std::size_t count = epoch * sampler.steps() + step;
      const auto share = sampler.share(step);
      optimizer.begin();
      for (std::size_t pass = 0; pass < options.accumulate; pass++) {
        const Phase phase(world, "forward and backward");
        const auto [first, last] = part_of(share.size(), int(pass), int(options.accumulate));
        const auto part = std::span(share).subspan(first, last - first);
        const auto into = pass == 0 ? Model::Into::fresh : Model::Into::sum;
        model.train(
            data, data.train, part, [&](std::size_t k) { optimizer.ready(k); }, into);
        samples += part.size();
      }
      optimizer.step(rate.at(count), count + 1);
      report.step(epoch + 1, step, sampler.steps());
    }
    trained.add(model.take_score(), samples);
    trained.seconds = seconds_since(start);
    trained.exposed_seconds = optimizer.communication().exposed_seconds - before.exposed_seconds;
    trained.hidden_seconds = optimizer.communication().hidden_seconds - before.hidden_seconds;
    trained.steps = double(sampler.steps());
    {
      const Phase phase(world, "evaluation");
      tested = evaluate(model, data, world);
    }
    epoch++;
    if (!std::isfinite(trained.loss_sum + tested->loss_sum))
      throw Error(ErrorCode::configuration,
                  "training diverged in epoch " + std::to_string(epoch) + "; give a smaller --lr");

    // 7. Write a checkpoint on rank 0 only: all ranks hold the same parameters.
    if (saves) write_checkpoint(options.checkpoint, options.lasting(world.size()), epoch, backend, state);

    // 8. Average the metrics over all ranks.
    trained = trained.over_ranks(world);
    tested = tested->over_ranks(world);
    report.epoch({epoch, trained, *tested, rate.at(epoch * sampler.steps() - 1)});
  }
  if (!options.timeline.empty()) world.stop_timeline();
  if (!tested) tested = evaluate(model, data, world).over_ranks(world);
  const std::uint64_t hash = model.parameter_hash();
  require_equal(world, hash, "parameters");
  report.end(*tested, hash);
}

}  // namespace anello::trainer
