// The key-value space of PMI-1. MPICH's mpiexec (Hydra) and `srun --mpi=pmi2` offer it to the processes that they
// start, through an open socket (PMI_FD) or an address (PMI_PORT).
//
// The process has one socket, which stays open. At its normal end the process must finalize PMI, because otherwise
// Hydra kills the other processes. So exit() finalizes PMI. MPI in the same process uses the same socket. With Hydra,
// MPI and Anello can both use it, in any order. Slurm accepts only one user of the socket, so with Slurm it is left to
// MPI.
#pragma once
#include <chrono>
#include <memory>

#include "rendezvous/join/key_value_space.hpp"

namespace anello::rendezvous {

// Returns null if the environment offers no PMI. `limit`: the time limit for each answer of the process manager, and so
// for each fence. May be called again after the previous space has been destroyed; then all processes of the job must
// call it again. The n-th spaces of all processes are one space, with its own keys and name. Blocks. Any thread.
//
// Throws the errors of PmiClient (rendezvous/join/pmi_client.hpp). Throws Error{unsupported} if Slurm's socket must be
// left to MPI. Throws Error{configuration} if the environment contradicts itself, or if another space is open in this
// process.
std::unique_ptr<KeyValueSpace> open_pmi(std::chrono::milliseconds limit);

}  // namespace anello::rendezvous
