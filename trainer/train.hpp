// The training as a function of a world. main.cpp defines it.
#pragma once
#include <anello/world.hpp>
#include <ostream>

#include "trainer/options.hpp"

namespace anello::trainer {

// Called by every rank with the same options; returns when all have finished. Rank 0 reports to `out`, whose terminal
// has `columns` columns (0: it is not a terminal). Errors as of the world, and of files, data and devices.
void train(World& world, const TrainOptions& options, std::ostream& out, int columns);

}  // namespace anello::trainer
