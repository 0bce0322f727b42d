// `anello-bench simulate`: the command line around sweep.hpp and planning.hpp. Runs alone, without a world.
#pragma once
#include "bench/program.hpp"

namespace anello::bench {

Command simulate_command();

}  // namespace anello::bench
