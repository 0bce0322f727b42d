#include "trainer/options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "trainer/learning_rate.hpp"

namespace anello::trainer {
namespace {

using std::to_string;

// Replaces CLI11's check, because CLI11 reads -1 as a very large number, and accepts nan as a positive number.
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

// Changes --global_batch=96 to --global-batch=96.
std::string with_dashes(std::string argument) {
  if (argument.starts_with("--")) {
    const auto end = std::min(argument.find('='), argument.size());
    std::replace(argument.begin(), argument.begin() + std::ptrdiff_t(end), '_', '-');
  }
  return argument;
}

CLI::Validator positive_whole() {
  return whole(1, std::numeric_limits<std::int32_t>::max());
}

void add_choice(CLI::App& app, const char* name, std::string& value, std::vector<std::string> of,
                const char* sentence) {
  app.add_option(name, value, sentence)->check(CLI::IsMember(std::move(of)))->capture_default_str();
}

void declare_model_and_data(CLI::App& app, TrainOptions& o) {
  add_choice(app, "--dataset", o.dataset, {"digits", "mnist"},
             "digits comes with this program; mnist is read from --data");
  app.add_option("--data", o.data, "directory of the dataset's files");
  app.add_option("--hidden", o.hidden, "widths of the hidden layers, separated by commas (digits: 256,128, mnist: 512)")
      ->delimiter(',')
      ->check(whole(1, 65536));
  app.add_option("--seed", o.seed, "seed of the initial weights and of the order of the samples")
      ->check(whole(0, std::numeric_limits<long>::max()))
      ->capture_default_str();
  add_choice(
      app, "--sampling", o.sampling, {"shard", "random"},
      "shard: every sample once in an epoch, on one rank; random: each rank draws from all samples with its own seed");
}

void declare_steps(CLI::App& app, TrainOptions& o) {
  app.add_option("--epochs", o.epochs, "passes over the training samples (digits: 20, mnist: 5)")
      ->check(positive_whole());
  app.add_option("--batch", o.batch,
                 "samples in a step on each rank (32); the learning rate grows with the number of ranks")
      ->check(positive_whole());
  app.add_option("--global-batch", o.global_batch, "samples in a step on all ranks together")->check(positive_whole());
  app.add_option("--accumulate", o.accumulate, "backward passes over parts of the batch in each step")
      ->check(positive_whole());
  add_choice(app, "--optimizer", o.optimizer, {"sgd", "adam"}, "sgd has momentum 0.9");
  app.add_option("--lr", o.learning_rate,
                 "learning rate for a batch of 32, scaled to the global batch (sgd: 0.005, adam: 0.00025)")
      ->check(positive_real());
  app.add_option("--warmup", o.warmup_epochs, "epochs in which the learning rate rises to its full value")
      ->check(whole(0, 1000000))
      ->capture_default_str();
  app.add_option("--clip", o.clip, "largest norm of a step's gradient; 0: no limit")->check(CLI::NonNegativeNumber);
}

void declare_run(CLI::App& app, TrainOptions& o) {
  add_choice(app, "--device", o.device, {"auto", "cpu", "cuda"}, "device to train on");
  app.add_flag("--no-graphs", o.no_graphs, "start kernels on a GPU one by one, and not in CUDA graphs");
  add_choice(app, "--compression", o.compression, {"none", "fp16", "bf16"}, "type in which gradients travel");
  app.add_flag("--feedback", o.feedback,
               "add what --compression rounds off a gradient to the gradient of the next step");
  app.add_flag("--tune-buckets", o.tune_buckets,
               "try several bucket sizes for gradients in the first steps, and keep the fastest");
  app.add_option("--checkpoint", o.checkpoint, "FILE that rank 0 writes after each epoch, and when SIGTERM comes");
  app.add_option("--resume", o.resume,
                 "continue from the checkpoint, on any number of ranks; auto: start anew if there is none yet")
      ->expected(0, 1)
      ->default_str("always")
      ->check(CLI::IsMember({"always", "auto"}));
  app.add_flag("--elastic", o.elastic,
               "go on when ranks end and others join: for anello run --min-np or --max-np; needs --global-batch");
  app.add_option("--timeline", o.timeline, "FILE for a timeline of all ranks, for Perfetto");
  app.add_option("--log", o.log, "FILE for JSON lines: one for each epoch, and one at the end");
}

// Prints as many digits as are needed to read the same number again.
std::string shortest(double value) {
  char digits[32];
  return {digits, std::to_chars(digits, digits + sizeof digits, value).ptr};
}

[[noreturn]] void refuse(const std::string& why) {
  throw Usage{2, "anello-train: " + why};
}

// In an elastic job, each rank may end at any time, and the result must not depend on the number of ranks.
void check_elastic(const TrainOptions& o) {
  if (!o.global_batch)
    refuse("--elastic needs --global-batch N, because a batch for each rank would change with their number");
  if (o.sampling != "shard")
    refuse("--elastic needs --sampling shard, because the samples of random depend on the number of ranks");
  if (o.feedback)
    refuse("--elastic and --feedback exclude each other: what a rank has kept of its gradients would end with it");
  if (o.device == "cuda")
    refuse("--elastic needs --device cpu, because ranks send each other the state from the host's memory");
}

}  // namespace

std::size_t TrainOptions::global_batch_of(int world_size) const {
  return global_batch ? *global_batch : batch.value_or(kReferenceBatch) * std::size_t(world_size);
}

double TrainOptions::base_rate() const {
  return learning_rate.value_or(optimizer == "adam" ? 0.00025 : 0.005);
}

RunFacts TrainOptions::facts(int world_size) const {
  std::string widths;
  for (const std::size_t width : hidden) widths += (widths.empty() ? "" : ",") + to_string(width);
  return {.lasting = {{"--dataset", dataset},
                      {"--hidden", widths},
                      {"--global-batch", to_string(global_batch_of(world_size))},
                      {"--optimizer", optimizer},
                      {"--seed", to_string(seed)},
                      {"--sampling", sampling}},
          .adjustable = {{"--lr", shortest(base_rate())},
                         {"--warmup", to_string(warmup_epochs)},
                         {"--accumulate", to_string(accumulate)},
                         {"--clip", shortest(clip)},
                         {"--compression", compression},
                         {"--feedback", feedback ? "on" : "off"}}};
}

Facts TrainOptions::shared(int world_size) const {
  auto [all, adjustable] = facts(world_size);
  all.insert(all.end(), adjustable.begin(), adjustable.end());
  all.insert(all.end(), {{"--epochs", to_string(epochs)},
                         {"--tune-buckets", tune_buckets ? "on" : "off"},
                         {"--device", device},
                         // Only rank 0 uses the file, so ranks may name different files.
                         {"--checkpoint", checkpoint.empty() ? "not given" : "given"},
                         {"--resume", resume},
                         {"--timeline", timeline.empty() ? "not given" : timeline}});
  return all;
}

TrainOptions parse_options(int argc, const char* const* argv) {
  TrainOptions options;
  CLI::App app("Trains a classifier of handwritten digits on all ranks of a world.", "anello-train");
  declare_model_and_data(app, options);
  declare_steps(app, options);
  declare_run(app, options);
  std::vector<std::string> arguments;
  // CLI11 expects the arguments in reverse order.
  for (int i = argc - 1; i > 0; i--) arguments.push_back(with_dashes(argv[i]));
  try {
    app.parse(arguments);
  } catch (const CLI::CallForHelp&) {
    throw Usage{0, app.help()};
  } catch (const CLI::ParseError& error) {
    refuse(std::string(error.what()) + "; see anello-train --help");
  }
  if (options.batch && options.global_batch)
    refuse("--batch (per rank) and --global-batch (all ranks together) exclude each other; give one of them");
  if (options.feedback && options.compression == "none")
    refuse("--feedback needs gradients that are rounded; give --compression too");
  if (options.resume != "no" && options.checkpoint.empty())
    refuse("--resume needs --checkpoint FILE, the file to continue from");
  if (options.elastic) check_elastic(options);
  const bool digits = options.dataset == "digits";
  if (options.hidden.empty())
    options.hidden = digits ? std::vector<std::size_t>{256, 128} : std::vector<std::size_t>{512};
  if (options.epochs == 0) options.epochs = digits ? 20 : 5;
  return options;
}

}  // namespace anello::trainer
