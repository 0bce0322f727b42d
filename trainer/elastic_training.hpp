// The training of one process of an elastic job (docs/elastic.md): the same batches and, apart from rounding, the same
// result as in a world whose ranks do not change. Model, optimizer and progress outlive the worlds; everything else is
// made anew in each world. Used by one thread of each process.
#pragma once
#include <anello/elastic.hpp>
#include <atomic>
#include <memory>
#include <ostream>
#include <span>
#include <vector>

#include "trainer/backend.hpp"
#include "trainer/dataset.hpp"
#include "trainer/epochs.hpp"
#include "trainer/learning_rate.hpp"
#include "trainer/model.hpp"
#include "trainer/optimizer.hpp"
#include "trainer/shared_checkpoint.hpp"
#include "trainer/train.hpp"

namespace anello::trainer {

class ElasticTraining {
 public:
  // Loads the data and makes the model. The arguments are those of train(), and must outlive this object; the options
  // have a global batch.
  ElasticTraining(const TrainOptions& options, std::ostream& out, int columns, const std::atomic<bool>& stop);

  // Parameters, optimizer state and progress; also the options and the data, which must be equal in all processes. If
  // an entry differs, the error names it, and only the process that joins ends.
  elastic::State& state() { return state_; }

  // Trains in the world that the job has entered, and in the next ones. Returns when all ranks have finished. The
  // result is not_needed if the others have finished without this process. Throws the errors of train(), except for
  // errors that the job survives.
  Ending run(elastic::Job& job);

 private:
  Sampler sampler(int rank, int size) const;
  Ending train_in_world(elastic::Job& job);

  const TrainOptions& options_;
  std::ostream& out_;
  int columns_;
  const std::atomic<bool>& stop_;
  std::shared_ptr<Backend> backend_ = make_cpu_backend();
  const Dataset data_;
  const LearningRate rate_;
  Model model_;
  std::shared_ptr<Optimizer> optimizer_;
  std::vector<std::span<float>> tensors_;  // parameters and optimizer state
  Progress progress_;
  HeldLock lock_;
  elastic::State state_;
};

}  // namespace anello::trainer
