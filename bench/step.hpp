// `anello-bench step`: a training step whose backward pass is calibrated computing. How much of the communication is
// left exposed: all gradients in one blocking allreduce after the backward pass, and in buckets during it.
#pragma once
#include "bench/program.hpp"

namespace anello::bench {

Command step_command();

}  // namespace anello::bench
