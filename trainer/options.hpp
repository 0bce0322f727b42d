// anello-train's command line. Choices (a dataset, an optimizer) stay text: parsing checks them, and the function that
// makes the object uses them.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace anello::trainer {

// Options and their values, as text.
using Facts = std::vector<std::pair<std::string, std::string>>;

// Facts stored in a checkpoint.
struct RunFacts {
  Facts lasting;     // options that must be equal if one run continues another
  Facts adjustable;  // options that may differ; but then the continued run takes different steps
};

struct TrainOptions {
  std::string dataset = "digits";
  std::optional<std::string> data;                 // the directory with the files of the dataset
  std::vector<std::size_t> hidden;                 // widths of the hidden layers; empty: the widths of the dataset
  std::size_t epochs = 0;                          // 0: the dataset's own number
  std::optional<std::size_t> batch, global_batch;  // at most one of them is given
  std::optional<double> learning_rate;             // base rate
  std::size_t warmup_epochs = 1;
  std::string optimizer = "sgd";
  std::uint64_t seed = 1;
  std::string sampling = "shard";
  std::string compression = "none";
  std::size_t accumulate = 1;  // backward passes in each step
  bool feedback = false;
  bool tune_buckets = false;
  double clip = 0;  // maximum norm of the gradient; 0: no limit
  std::string checkpoint;
  std::string timeline;
  std::string resume = "no";  // no, always (there must be a checkpoint) or auto (if there is one)
  std::string device = "auto";
  bool elastic = false;
  bool no_graphs = false;
  std::string log;

  std::size_t global_batch_of(int world_size) const;
  double base_rate() const;
  RunFacts facts(int world_size) const;
  // Lists the options that must be equal on all ranks of a run: the lasting facts, the adjustable facts and further
  // options.
  Facts shared(int world_size) const;
};

// Thrown by parse_options if no training is to run, because of --help or a wrong command line.
struct Usage {
  int exit_code;     // 0 or 2
  std::string text;  // the text for standard output; if exit_code is 2, one line for standard error
};

TrainOptions parse_options(int argc, const char* const* argv);

}  // namespace anello::trainer
