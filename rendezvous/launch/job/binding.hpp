// Distributes the cores of this process over the ranks, for --bind.
#pragma once
#include <sched.h>

namespace anello::launch {

// Returns the cores of one rank, out of those that this process may use. They are contiguous, and the numbers of cores
// of two ranks differ by at most one. If there are fewer cores than ranks, neighbours share a core: most algorithms
// send more between neighbours than between other ranks.
// `first_run`: true if perhaps only the first of the ranks run, as in an elastic job. Then the first ranks have cores
// of their own, and do not share cores with neighbours.
cpu_set_t cores_of(int rank, int ranks, bool first_run);

}  // namespace anello::launch
