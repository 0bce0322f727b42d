// Distributes the cores of this process over the ranks, for --bind.
#pragma once
#include <sched.h>

namespace anello::launch {

int allowed_core_count();  // how many cores this process may use

// The cores of one rank: contiguous, and as many as for each other rank, or one more or less. At least one, if there
// are no fewer cores than ranks.
cpu_set_t cores_of(int rank, int ranks);

}  // namespace anello::launch
