// Variables of Slurm that act as options of srun. They may be set in a job or a step, and would change the step in
// which our agents run. Any thread.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace anello::launch {

// True if this variable would make srun give its tasks less than the allocation has, place or bind them differently, or
// hide their output. srun is started without such variables. Ranks get these variables, because programs read them too.
bool shapes_steps(std::string_view variable);

// Returns these variables of this process: "NAME=value".
std::vector<std::string> variables_that_shape_steps();

}  // namespace anello::launch
