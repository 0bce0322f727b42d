#include "trainer/options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <sstream>

#include "trainer/hash.hpp"
#include "trainer/learning_rate.hpp"

namespace anello::trainer {
namespace {

using std::to_string;

// CLI11 by itself reads -1 as a very large number, and accepts nan as a positive one.
CLI::Validator whole(long min, long max) {
  const auto check = [=](std::string& given) -> std::string {
    long value = 0;
    const char* const end = given.data() + given.size();
    const auto [after, error] = std::from_chars(given.data(), end, value);
    if (error == std::errc() && after == end && value >= min && value <= max) return "";
    return "'" + given + "' is not a whole number from " + to_string(min) + " to " + to_string(max);
  };
  return {check, "NUMBER"};
}
CLI::Validator positive_real() {
  const auto check = [](std::string& given) -> std::string {
    double value = 0;
    if (CLI::detail::lexical_cast(given, value) && value > 0 && std::isfinite(value)) return "";
    return "'" + given + "' is not a positive number";
  };
  return {check, "NUMBER"};
}

// --global_batch=96 is --global-batch=96.
std::string with_dashes(std::string argument) {
  if (argument.starts_with("--")) {
    const auto end = std::min(argument.find('='), argument.size());
    std::replace(argument.begin(), argument.begin() + std::ptrdiff_t(end), '_', '-');
  }
  return argument;
}

void declare(CLI::App& app, TrainOptions& o) {
  const CLI::Validator positive = whole(1, std::numeric_limits<std::int32_t>::max());
  const auto choice = [&](const char* name, std::string& value, std::vector<std::string> of, const char* sentence) {
    app.add_option(name, value, sentence)->check(CLI::IsMember(std::move(of)))->capture_default_str();
  };
  choice("--dataset", o.dataset, {"digits", "mnist"}, "digits comes with this program; mnist is read from --data");
  app.add_option("--data", o.data, "directory of the dataset's files");
  app.add_option("--hidden", o.hidden, "widths of the hidden layers, separated by commas (digits: 256,128, mnist: 512)")
      ->delimiter(',')
      ->check(whole(1, 65536));
  app.add_option("--epochs", o.epochs, "passes over the training samples (digits: 20, mnist: 5)")->check(positive);
  app.add_option("--batch", o.batch,
                 "samples in a step on each rank (32); the learning rate grows with the number of ranks")
      ->check(positive);
  app.add_option("--global-batch", o.global_batch, "samples in a step on all ranks together")->check(positive);
  app.add_option("--lr", o.learning_rate,
                 "learning rate for a batch of 32, scaled to the global batch (sgd: 0.005, adam: 0.00025)")
      ->check(positive_real());
  app.add_option("--warmup", o.warmup_epochs, "epochs in which the learning rate rises to its full value")
      ->check(whole(0, 1000000))
      ->capture_default_str();
  choice("--optimizer", o.optimizer, {"sgd", "adam"}, "sgd has momentum 0.9");
  app.add_option("--seed", o.seed, "seed of the initial weights and of the order of the samples")
      ->check(whole(0, std::numeric_limits<long>::max()))
      ->capture_default_str();
  choice(
      "--sampling", o.sampling, {"shard", "random"},
      "shard: every sample once in an epoch, on one rank; random: each rank draws from all samples with its own seed");
  choice("--compression", o.compression, {"none", "fp16", "bf16"}, "type in which gradients travel");
  app.add_flag("--feedback", o.feedback,
               "add what --compression rounds off a gradient to the gradient of the next step");
  app.add_option("--accumulate", o.accumulate, "backward passes over parts of the batch in each step")->check(positive);
  app.add_option("--clip", o.clip, "largest norm of a step's gradient; 0: no limit")->check(CLI::NonNegativeNumber);
  app.add_flag("--tune-buckets", o.tune_buckets,
               "try several bucket sizes for gradients in the first steps, and keep the fastest");
  app.add_option("--checkpoint", o.checkpoint, "FILE that rank 0 writes after each epoch");
  app.add_flag("--resume", o.resume, "continue from the checkpoint, on any number of ranks");
  choice("--device", o.device, {"auto", "cpu", "cuda"}, "device to train on");
  app.add_option("--timeline", o.timeline, "FILE for a timeline of all ranks, for Perfetto");
  app.add_option("--log", o.log, "FILE for JSON lines: one for each epoch, and one at the end");
}

[[noreturn]] void refuse(const std::string& why) {
  throw Usage{2, "anello-train: " + why};
}

}  // namespace

std::size_t TrainOptions::global_batch_of(int world_size) const {
  return global_batch ? *global_batch : batch.value_or(kReferenceBatch) * std::size_t(world_size);
}

double TrainOptions::base_rate() const {
  return learning_rate.value_or(optimizer == "adam" ? 0.00025 : 0.005);
}

Facts TrainOptions::lasting(int world_size) const {
  std::string widths;
  for (const std::size_t width : hidden) widths += (widths.empty() ? "" : ",") + to_string(width);
  return {{"--dataset", dataset},
          {"--hidden", widths},
          {"--global-batch", to_string(global_batch_of(world_size))},
          {"--optimizer", optimizer},
          {"--seed", to_string(seed)},
          {"--sampling", sampling}};
}

std::uint64_t TrainOptions::hash(int world_size) const {
  std::ostringstream all;
  all << epochs << ' ' << base_rate() << ' ' << warmup_epochs << ' ' << compression << ' ' << resume << ' ' << timeline
      << ' ' << accumulate << ' ' << clip << ' ' << feedback << ' ' << tune_buckets;
  for (const auto& [option, value] : lasting(world_size)) all << ' ' << option << ' ' << value;
  return hash64(std::as_bytes(std::span(all.view())));
}

TrainOptions parse_options(int argc, const char* const* argv) {
  TrainOptions options;
  CLI::App app("Trains a classifier of handwritten digits on all ranks of a world.", "anello-train");
  declare(app, options);
  std::vector<std::string> arguments;
  for (int i = argc - 1; i > 0; i--) arguments.push_back(with_dashes(argv[i]));  // CLI11 takes them last first
  try {
    app.parse(arguments);
  } catch (const CLI::CallForHelp&) {
    throw Usage{0, app.help()};
  } catch (const CLI::ParseError& error) {
    refuse(std::string(error.what()) + "; see anello-train --help");
  }
  if (options.batch && options.global_batch)
    refuse("--batch (per rank) and --global-batch (all ranks together) cannot both be given; give one of them");
  if (options.feedback && options.compression == "none")
    refuse("--feedback needs gradients that are rounded; give --compression too");
  if (options.resume && options.checkpoint.empty())
    refuse("--resume needs --checkpoint FILE, the file to continue from");
  const bool digits = options.dataset == "digits";
  if (options.hidden.empty())
    options.hidden = digits ? std::vector<std::size_t>{256, 128} : std::vector<std::size_t>{512};
  if (options.epochs == 0) options.epochs = digits ? 20 : 5;
  return options;
}

}  // namespace anello::trainer
