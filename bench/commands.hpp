// anello-bench, and those of its subcommands that do not measure one collective operation.
#pragma once
#include "bench/program.hpp"

namespace anello::bench {

// `tune`: measures every algorithm at every size in the world in which it is started, compares the fastest with the
// library's own choice, and writes the table for ANELLO_TABLE. All ranks run this subcommand; rank 0 writes.
Command tune_command();

// `step`: a training step whose backward pass is arithmetic of a calibrated duration. Measures how much communication
// the backward pass does not hide: with one blocking allreduce after the pass, and with buckets that are reduced during
// the pass.
Command step_command();

// `simulate`: predicts times on machines that the flags describe. Runs alone, without a world.
Command simulate_command();

// Runs the whole program. Returns its exit code.
int run_anello_bench(int argc, char** argv);

}  // namespace anello::bench
