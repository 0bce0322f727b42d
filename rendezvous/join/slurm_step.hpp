// Finds the step of a Slurm job that this process belongs to, as one of its tasks. Pure: reads variables and processes
// through functions.
#pragma once
#include <optional>
#include <string>

#include "rendezvous/join/job_environment.hpp"

namespace anello::rendezvous {

// Returns an empty result in a batch script and in a shell of salloc. They have SLURM_PROCID and SLURM_NTASKS too, but
// are not tasks of a step. Throws Error{configuration}.
std::optional<Placement> slurm_step(const Variables& variables);

// True if an interactive shell started this process: the shell of `srun --pty`, or salloc's shell if Slurm runs it as a
// step. Programs of such a shell have the variables of its task, but are not tasks themselves. Throws
// Error{configuration}.
bool in_interactive_shell(const Variables& variables, const Processes& processes);

// True if the PMI_ or PMIX_ variables are from srun, and not from an mpiexec that was started in the step.
bool is_slurms_pmi(const Variables& variables);
bool is_slurms_pmix(const Variables& variables);

// True in salloc's interactive step (LaunchParameters=use_interactive_step). This step has one host; the allocation may
// have more hosts.
bool is_step_of_salloc(const Variables& variables);

// Returns advice for a process that is not a task but runs in an allocation for several tasks. Empty if the process is
// not in such an allocation. Throws Error{configuration}.
std::string alone_in_an_allocation(const Variables& variables);

}  // namespace anello::rendezvous
