// The output of a training: rank 0 writes lines, a progress bar if there is a terminal, and a log of JSON lines. On
// other ranks every call does nothing. One thread.
#pragma once
#include <anello/elastic.hpp>
#include <anello/world.hpp>
#include <chrono>
#include <fstream>
#include <ostream>
#include <string>

#include "trainer/dataset.hpp"
#include "trainer/learning_rate.hpp"
#include "trainer/metrics.hpp"
#include "trainer/options.hpp"
#include "trainer/shared_checkpoint.hpp"

namespace anello::trainer {

struct EpochResult {
  std::size_t epoch;     // number of the epoch, from 1
  std::size_t steps;     // steps in an epoch
  Metrics train, test;   // the results over all ranks
  double learning_rate;  // the learning rate at the end of the epoch
};

// Returns the number of columns of the terminal on which rank 0 may draw: the launcher's terminal, or this process's; 0
// if there is no terminal.
int terminal_columns(const Settings& settings);

class Report {
 public:
  // `columns` is the width of the terminal behind `out`; 0 if there is none. `continues`: an earlier world of the
  // training has begun the log. If the log cannot be written, the constructor, world(), epoch() and end() throw
  // Error{file}. All of these except the constructor also throw it if `out` cannot be written.
  Report(World& world, const TrainOptions& options, std::ostream& out, int columns, bool continues = false);

  void start(const std::string& device, const Dataset& data, std::size_t parameters, const LearningRate& rate);
  // Reports which checkpoint the training continues, which options have changed, and, if the checkpoint is not locked,
  // why not.
  void resumed(const Restored& restored, const std::string& lock_missing);
  // A world of an elastic job begins.
  void world(const elastic::Change& change, const Progress& done);
  void stopped(const Progress& done, std::size_t steps);
  void step(std::size_t epoch, std::size_t step, std::size_t steps);
  void epoch(const EpochResult& result);
  void end(const Metrics& test, std::uint64_t parameter_hash);

 private:
  std::ostream& begin_line();
  void write(const std::string& entry);  // writes to the log; also throws if earlier output to `out` was lost
  [[noreturn]] void refuse_log() const;

  World& world_;
  const TrainOptions& options_;
  std::ostream& out_;
  int columns_;
  std::ofstream log_;
  std::chrono::steady_clock::time_point last_drawn_{};
};

}  // namespace anello::trainer
