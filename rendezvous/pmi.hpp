// The key-value space of PMI-1, which MPICH's mpiexec (Hydra) and `srun --mpi=pmi2` offer to the processes that they
// start, through an open socket (PMI_FD) or an address (PMI_PORT).
//
// The socket is one for the whole process and stays open. The manager must learn at the process's normal end that it is
// over (Hydra kills the other processes otherwise), so this is said at exit(). MPI in the same process uses the same
// socket: with Hydra both work, in any order; Slurm accepts only one of them, and then it is left to MPI.
#pragma once
#include <chrono>
#include <memory>

#include "rendezvous/key_value_space.hpp"

namespace anello::rendezvous {

// Null if the environment offers no PMI. `limit` is for each answer of the process manager, and so for each fence. May
// be called again after the space before has been destroyed, by all processes of the job: the n-th space of each
// process is one space with keys and a name of its own. Blocks. Any thread.
//
// Throws Error{unsupported} if Slurm's socket must be left to MPI, Error{configuration} if the environment contradicts
// itself or another space is open in this process, and as PmiClient does (rendezvous/pmi_client.hpp).
std::unique_ptr<KeyValueSpace> open_pmi(std::chrono::milliseconds limit);

}  // namespace anello::rendezvous
