// anello-bench, and its subcommands other than the measurements of one collective operation.
#pragma once
#include "bench/program.hpp"

namespace anello::bench {

// `tune`: measures every algorithm at every size in the world in which it is started, compares the best with the
// library's own choice, and writes the table for ANELLO_TABLE. All ranks run it; rank 0 writes.
Command tune_command();

// `step`: a training step whose backward pass is calibrated arithmetic. Measures how much of the communication the
// backward pass does not hide: with one blocking allreduce after it, and with buckets that are reduced during it.
Command step_command();

// `simulate`: predicts times on machines that the flags describe. Runs alone, without a world.
Command simulate_command();

// The whole program. Returns its exit code.
int run_anello_bench(int argc, char** argv);

}  // namespace anello::bench
