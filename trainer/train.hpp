// The training as a function of a world. Defined in main.cpp.
#pragma once
#include <anello/world.hpp>
#include <atomic>
#include <ostream>

#include "trainer/options.hpp"

namespace anello::trainer {

enum class Ending {
  complete,
  stopped,    // a request stopped the training; the checkpoint has the state
  not_needed  // the other processes of an elastic job have finished without this one
};

// Every rank calls this with the same options. Returns when all ranks have finished. Rank 0 reports to `out`, whose
// terminal has `columns` columns (0: it is not a terminal). If the options name a checkpoint and `stop` becomes true on
// a rank, all ranks end after the same step, and the checkpoint holds the state of that step. Throws the errors of the
// world, of files, data and devices.
Ending train(World& world, const TrainOptions& options, std::ostream& out, int columns,
             const std::atomic<bool>& stop = false);

}  // namespace anello::trainer
