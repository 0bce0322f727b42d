// The key-value space of PMI-1, which MPICH's mpiexec (Hydra) and `srun --mpi=pmi2` offer to the processes that they
// start, through an open socket (PMI_FD) or an address (PMI_PORT).
//
// The process has one socket, which stays open. The process has to finalize PMI at its normal end (otherwise Hydra
// kills the other processes), so this is done at exit(). MPI in the same process uses the same socket. With Hydra both
// work, in any order; Slurm accepts only one user of the socket, so there it is left to MPI.
#pragma once
#include <chrono>
#include <memory>

#include "rendezvous/join/key_value_space.hpp"

namespace anello::rendezvous {

// Null if the environment offers no PMI. `limit` is for each answer of the process manager, and so for each fence. May
// be called again after the previous space has been destroyed, by all processes of the job: the n-th spaces of all
// processes are one space, with keys and a name of its own. Blocks. Any thread.
//
// Throws Error{unsupported} if Slurm's socket must be left to MPI, Error{configuration} if the environment contradicts
// itself or another space is open in this process, and the errors of PmiClient (rendezvous/join/pmi_client.hpp).
std::unique_ptr<KeyValueSpace> open_pmi(std::chrono::milliseconds limit);

}  // namespace anello::rendezvous
