// The key-value space of PMIx. Open MPI's mpirun and `srun --mpi=pmix` offer it to the processes that they start.
// Anello uses it through PMIx's own library, libpmix.so.2, which is loaded when it is needed. A build without PMIx's
// headers cannot use PMIx.
//
// The library counts how often a process initialises it. So MPI in the same process can use it too, before or after
// Anello. exit() finalizes it, because the manager treats an earlier end of the connection as a failure.
#pragma once
#include <chrono>
#include <memory>

#include "rendezvous/join/key_value_space.hpp"

namespace anello::rendezvous {

// Returns null if the environment offers no PMIx. `limit`: the time limit for each fence. May be called again, like
// open_pmi(). Blocks. Any thread.
//
// If this build or this machine has no PMIx, throws Error{unsupported} that names the remedy. If another space is open
// in this process, throws Error{configuration}. If the manager does not accept this process, throws Error{network}.
std::unique_ptr<KeyValueSpace> open_pmix(std::chrono::milliseconds limit);

}  // namespace anello::rendezvous
