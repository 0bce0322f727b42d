// Variables of Slurm that are options of srun. The surroundings of a job or a step set them, and they would change the
// step in which our agents run. Any thread.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace anello::launch {

// True if this variable would make srun give its tasks less than the allocation has, place or bind them differently, or
// hide their output. srun is started without it; ranks get it, because programs read such variables too.
bool shapes_steps(std::string_view variable);

// Returns these variables of this process: "NAME=value".
std::vector<std::string> variables_that_shape_steps();

}  // namespace anello::launch
