// The step of a Slurm job that this process is a task of. Pure: reads variables and processes through functions.
#pragma once
#include <optional>
#include <string>

#include "rendezvous/job_environment.hpp"

namespace anello::rendezvous {

// Nothing in a batch script and a shell of salloc: these have SLURM_PROCID and SLURM_NTASKS too, but are no tasks of a
// step. Throws Error{configuration}.
std::optional<Placement> slurm_step(const Variables& variables);

// An interactive shell started this process: that of `srun --pty`, or that of salloc where Slurm runs it as a step. Its
// programs have the variables of its task, but are no tasks themselves. Throws Error{configuration}.
bool in_interactive_shell(const Variables& variables, const Processes& processes);

// PMI_ and PMIX_ variables are those of srun, not of an mpiexec that was started in the step.
bool is_slurms_pmi(const Variables& variables);
bool is_slurms_pmix(const Variables& variables);

// The step as which Slurm runs the shell of salloc, if it is configured to; its one host is not the allocation's.
bool is_step_of_salloc(const Variables& variables);

// For a process that is no task: what to say of an allocation for several tasks, with the remedy. Empty if there is
// none. Throws Error{configuration}.
std::string alone_in_an_allocation(const Variables& variables);

}  // namespace anello::rendezvous
