// Distributes the cores of this process over the ranks, for --bind.
#pragma once
#include <sched.h>

namespace anello::launch {

int allowed_core_count();  // how many cores this process may use

// Returns the cores of one rank. They are contiguous, and each rank has as many as any other, or one more or less. At
// least one, if there are no fewer cores than ranks.
cpu_set_t cores_of(int rank, int ranks);

}  // namespace anello::launch
