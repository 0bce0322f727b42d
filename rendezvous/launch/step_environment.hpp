// Variables of Slurm that are options of srun: those that a job's or a step's surroundings set, and that would shape
// the step in which our agents run. Any thread.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace anello::launch {

// Whether srun would give its tasks less than the allocation has, place or bind them otherwise, or hide what they say,
// because this variable is set. srun is started without it; ranks get it, because programs read such variables too.
bool shapes_steps(std::string_view variable);

// Those of this process: "NAME=value".
std::vector<std::string> variables_that_shape_steps();

}  // namespace anello::launch
