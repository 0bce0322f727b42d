#include "rendezvous/join/slurm_step.hpp"

#include <anello/error.hpp>

#include "rendezvous/join/slurm_node_list.hpp"
#include "ring/base/text.hpp"

namespace anello::rendezvous {
namespace {

constexpr std::string_view kStepOfSalloc = "4294967290";  // SLURM_INTERACTIVE_STEP

// Returns a name that differs between clusters, jobs, runs of a job, and steps of a run.
std::string job_name(const Variables& variables) {
  const auto part = [&](const char* name) { return variables(name).value_or("0"); };
  return text("slurm-", part("SLURM_CLUSTER_NAME"), "-", part("SLURM_JOB_ID"), "-", part("SLURM_RESTART_COUNT"), "-",
              part("SLURM_STEP_ID"));
}

}  // namespace

// SLURM_PTY_PORT says that the step has an interactive shell, but steps that the shell starts inherit the variable. The
// task of a shell leads the session of its terminal; a task without a terminal never leads its session. A shell gives
// each program a new process group. A program that `srun --pty` starts without a shell is in the group of the task
// itself. Only task 0 has the terminal.
bool in_interactive_shell(const Variables& variables, const Processes& processes) {
  if (!variables("SLURM_PTY_PORT") || number_of(variables, "SLURM_PROCID", 0) != 0) return false;
  const int task = number_of(variables, "SLURM_TASK_PID", 0);
  return task > 0 && processes.session_of(task) == task && processes.own_group != task;
}

bool is_slurms_pmi(const Variables& variables) {
  return variables("SLURM_STEP_ID") && !variables("HYDI_CONTROL_FD");
}

bool is_slurms_pmix(const Variables& variables) {
  return variables("PMIX_NAMESPACE").value_or("").starts_with("slurm.");
}

bool is_step_of_salloc(const Variables& variables) {
  return variables("SLURM_STEP_ID") == kStepOfSalloc;
}

std::string alone_in_an_allocation(const Variables& variables) {
  const auto job = variables("SLURM_JOB_ID");
  const int tasks = number_of(variables, "SLURM_NTASKS", 1);
  if (!job || tasks <= 1) return {};
  return text("this process runs alone; the allocation (Slurm job ", *job, ") has ", tasks,
              " tasks: start it with `srun` or `anello run`, or set ANELLO_SIZE=1");
}

std::optional<Placement> slurm_step(const Variables& variables) {
  const auto job = variables("SLURM_JOB_ID"), step = variables("SLURM_STEP_ID");
  if (!job || !step || !variables("SLURM_STEP_NUM_TASKS")) return std::nullopt;
  Placement out;
  out.launcher = text("Slurm step ", *job, ".", *step);
  out.size = number_of(variables, "SLURM_STEP_NUM_TASKS", -1);
  out.rank = number_of(variables, "SLURM_PROCID", -1);
  out.local_rank = number_of(variables, "SLURM_LOCALID", -1);
  out.evidence = text("SLURM_PROCID=", out.rank, ", SLURM_STEP_NUM_TASKS=", out.size);
  const auto hosts = variables("SLURM_STEP_NODELIST");
  if (!hosts) return out;
  out.way = Way::first_host;
  out.job = out.place = job_name(variables);
  out.host = expand_slurm_nodes("SLURM_STEP_NODELIST", *hosts).front();
  out.one_host = number_of(variables, "SLURM_STEP_NUM_NODES", 0) == 1;
  // Task 0 may be on any host, with an arbitrary distribution or in a heterogeneous job. A heterogeneous job also
  // numbers its hosts in a different order from the list. But each host has a task, so the first host's first task
  // serves.
  out.serves = variables("SLURMD_NODENAME") == out.host && out.local_rank == 0;
  return out;
}

}  // namespace anello::rendezvous
