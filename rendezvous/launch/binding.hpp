// Cores of one's own for each rank.
#pragma once
#include <sched.h>

namespace anello::launch {

int cores_to_share();  // that this process may use

// Rank's part of those: contiguous, as equal as can be; at least one if there are as many cores as ranks.
cpu_set_t cores_of(int rank, int ranks);

}  // namespace anello::launch
