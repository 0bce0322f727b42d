// The loop over epochs and steps, for a world whose ranks do not change, and for each world of an elastic job. Used by
// one thread of each rank.
#pragma once
#include <anello/elastic.hpp>
#include <anello/world.hpp>
#include <optional>

#include "trainer/data_parallel.hpp"
#include "trainer/dataset.hpp"
#include "trainer/learning_rate.hpp"
#include "trainer/metrics.hpp"
#include "trainer/model.hpp"
#include "trainer/report.hpp"
#include "trainer/sampler.hpp"
#include "trainer/shared_checkpoint.hpp"
#include "trainer/stop_check.hpp"

namespace anello::trainer {

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
  SharedCheckpoint& checkpoint;
  StopCheck stop;
  elastic::Job* job = nullptr;  // set if ranks may end and join

  // Changes parameters, optimizer state and progress. In an elastic job, the ranks have equal values of these at each
  // commit, and only commits change them.
  void commit(const std::function<void()>& update) { job == nullptr ? update() : job->commit(update); }
};

// Returns the metrics over the test samples. Collective.
Metrics evaluate(Run& run);

// Trains from `done` to the end of the last epoch, and returns true. If the ranks are asked to stop before that, saves
// a checkpoint of the steps so far, and returns false. Collective. `tested` is set if an epoch has been evaluated. Rank
// 0 saves and reports each epoch before any rank begins the next epoch. Throws the errors of collectives and of files,
// and elastic::Job::WorldEnds. If the loss is no longer finite, throws Error{configuration}.
bool train_epochs(Run& run, Progress& done, std::optional<Metrics>& tested);

}  // namespace anello::trainer
