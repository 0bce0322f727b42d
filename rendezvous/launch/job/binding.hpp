// Distributes the cores of this process over the ranks, for --bind.
#pragma once
#include <sched.h>

namespace anello::launch {

int allowed_core_count();  // how many cores this process may use

// Returns the cores of one rank. They are contiguous. The numbers of cores of two ranks differ by at most one. Each
// rank gets at least one core if there are enough.
cpu_set_t cores_of(int rank, int ranks);

}  // namespace anello::launch
