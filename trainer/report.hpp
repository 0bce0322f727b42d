// The output of a training: rank 0 writes lines, a progress bar if there is a terminal, and a log of JSON lines. On
// other ranks every call does nothing. One thread.
#pragma once
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
  std::size_t epoch;     // from 1
  Metrics train, test;   // over all ranks
  double learning_rate;  // at the epoch's end
};

// Columns of the terminal that rank 0 may draw on: the launcher's, or that of this process; 0 if there is none.
int terminal_columns(const Settings& settings);

class Report {
 public:
  // `columns` is the width of the terminal behind `out`, 0 if there is none. Like epoch() and end(), throws Error{file}
  // if the log cannot be written; those two also if `out` cannot.
  Report(World& world, const TrainOptions& options, std::ostream& out, int columns);

  void start(const std::string& device, const Dataset& data, std::size_t parameters, const LearningRate& rate);
  // Which checkpoint the training goes on from, and what is not as it was; why the checkpoint is not locked, if so.
  void resumed(const Restored& restored, const std::string& lock_missing);
  void stopped(const Progress& done, std::size_t steps);
  void step(std::size_t epoch, std::size_t step, std::size_t steps);
  void epoch(const EpochResult& result);
  void end(const Metrics& test, std::uint64_t parameter_hash);

 private:
  std::ostream& begin_line();
  void write(const std::string& entry);  // into the log; throws if what was written before to `out` is lost, too
  [[noreturn]] void refuse_log() const;

  World& world_;
  const TrainOptions& options_;
  std::ostream& out_;
  int columns_;
  std::ofstream log_;
  std::chrono::steady_clock::time_point last_drawn_{};
};

}  // namespace anello::trainer
