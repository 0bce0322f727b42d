#include "rendezvous/join/job_environment.hpp"

#include <unistd.h>

#include <algorithm>
#include <anello/error.hpp>
#include <cstdlib>
#include <limits>

#include "rendezvous/join/slurm_step.hpp"
#include "ring/base/config.hpp"
#include "ring/base/text.hpp"

namespace anello::rendezvous {
namespace {

// A launcher that gives its processes their numbers in variables. If the launcher has a `mark`, this variable must also
// be set.
struct Launcher {
  const char *name, *mark;
  const char *rank, *size, *local_rank, *local_size;
  Way way;
  const char* remedy = "";  // remedy if the launcher's processes cannot meet
};
constexpr Launcher kOurs = {"anello run",        "ANELLO_REPORT_FD",  "ANELLO_RANK", "ANELLO_SIZE",
                            "ANELLO_LOCAL_RANK", "ANELLO_LOCAL_SIZE", Way::master};
constexpr Launcher kTorchrun = {"torchrun",   "TORCHELASTIC_RUN_ID", "RANK",     "WORLD_SIZE",
                                "LOCAL_RANK", "LOCAL_WORLD_SIZE",    Way::master};
constexpr Launcher kByVariables = {"RANK and WORLD_SIZE", nullptr,    "RANK", "WORLD_SIZE", "LOCAL_RANK",
                                   "LOCAL_WORLD_SIZE",    Way::master};
constexpr Launcher kProcessManagers[] = {
    {"Open MPI's mpirun", nullptr, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", Way::pmix},
    {"MVAPICH's launcher", nullptr, "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK",
     "MV2_COMM_WORLD_LOCAL_SIZE", Way::pmi},
    {"a process manager (PMI)", nullptr, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", Way::pmi},
    {"a process manager (PMIx)", nullptr, "PMIX_RANK", nullptr, nullptr, nullptr, Way::pmix},
};
// Schedulers that give tasks their numbers, but not the number of tasks.
constexpr Launcher kSchedulers[] = {
    {"an indexed job of Kubernetes", nullptr, "JOB_COMPLETION_INDEX", nullptr, nullptr, nullptr, Way::master},
    {"an LSF job", nullptr, "LSF_PM_TASKID", nullptr, nullptr, nullptr, Way::none},
    {"a PBS job (pbsdsh)", "PBS_JOBID", "PBS_TASKNUM", nullptr, nullptr, nullptr, Way::none},
};
constexpr const char* kHorovodsRemedy =
    "its ranks meet through Horovod; start them with `anello run -np N -- COMMAND` instead; if the variables are "
    "left "
    "from something else, unset HOROVOD_RANK and HOROVOD_SIZE";
constexpr Launcher kHorovodrun = {"horovodrun",         nullptr,   "HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK",
                                  "HOROVOD_LOCAL_SIZE", Way::none, kHorovodsRemedy};

// Reads a launcher's numbers from the environment. Collects in `evidence` the variables that gave the rank and the
// size.
class Numbers {
 public:
  Numbers(const Variables& variables, std::string& evidence) : variables_(variables), evidence_(evidence) {}
  int operator()(const char* name, bool evident = false) {
    const auto value = name ? variables_(name) : std::nullopt;
    if (!value) return -1;
    if (evident) evidence_ += text(evidence_.empty() ? "" : ", ", name, "=", *value);
    return number_of(variables_, name, -1);
  }

 private:
  const Variables& variables_;
  std::string& evidence_;
};

// Sets the address of rank 0 from torch's variables. torchrun itself may use the port in these variables.
void set_master(const Variables& variables, Placement& out) {
  const auto host = variables("MASTER_ADDR"), port = variables("MASTER_PORT");
  out.serves = out.rank == 0;
  if (host) out.host = *host;
  if (port) out.port = std::uint16_t(parse_number("MASTER_PORT", *port, 1, 65535));
  const auto part = [&](const char* name) { return variables(name).value_or("-"); };
  out.place = text("master-", out.port);
  out.job = text(out.place, "-", part("TORCHELASTIC_RUN_ID"), "-", part("TORCHELASTIC_RESTART_COUNT"));
  if (variables("TORCHELASTIC_USE_AGENT_STORE") == "True") out.port = 0;
  if (!host || !port) {
    out.way = Way::none;
    out.unusable =
        "MASTER_ADDR and MASTER_PORT must say where rank 0 is (MASTER_ADDR=localhost MASTER_PORT=29500 on one host)";
  }
}

std::optional<Placement> placed_by(const Launcher& launcher, const Variables& variables) {
  if (!variables(launcher.rank) || (launcher.mark && !variables(launcher.mark))) return std::nullopt;
  Placement out;
  Numbers number(variables, out.evidence);
  out.launcher = launcher.name;
  out.rank = number(launcher.rank, true);
  out.size = number(launcher.size, true);
  out.local_rank = number(launcher.local_rank);
  out.local_size = number(launcher.local_size);
  out.one_host = out.size >= 0 && out.size == out.local_size;
  out.way = launcher.way;
  out.exported = launcher.way == Way::pmi || launcher.name == kByVariables.name;
  out.unusable = launcher.remedy;
  if (out.way == Way::master) set_master(variables, out);
  if (out.size >= 0 && out.rank >= out.size) {
    out.way = Way::none;
    out.unusable = text(launcher.rank, "=", out.rank, " must be less than ", launcher.size, "=", out.size);
  }
  return out;
}

// True if the process manager is Slurm's. Slurm's variables may be left over, because a shell passes them on to its
// programs.
bool is_slurms(Way manager, const Variables& variables) {
  return manager == Way::pmi ? is_slurms_pmi(variables) : is_slurms_pmix(variables);
}

// Requires both RANK and WORLD_SIZE. WORLD_SIZE alone may be set for a whole job, and programs use the name RANK for
// other things too.
std::optional<Placement> placed_by_variables(const Variables& variables) {
  return variables(kByVariables.size) ? placed_by(kByVariables, variables) : std::nullopt;
}

// True for the batch script of a PBS job: the script is the job's task 1.
bool is_script(const Placement& task) {
  return task.evidence.starts_with("PBS_") && task.rank <= 1;
}

// Throws if RANK and WORLD_SIZE differ from MPI's numbers, because it is not clear which launcher has started the other
// one.
void require_agreement(const std::vector<Placement>& found) {
  const auto by_variables =
      std::find_if(found.begin(), found.end(), [](const auto& one) { return one.launcher == kByVariables.name; });
  if (by_variables == found.end() || by_variables == found.begin()) return;
  const Placement& first = found.front();
  if (first.rank == by_variables->rank && (first.size < 0 || first.size == by_variables->size)) return;
  throw Error(ErrorCode::configuration, text(first.launcher, " says ", first.evidence, ", but ", by_variables->evidence,
                                             "; unset those that are not this job's"));
}

}  // namespace

std::string alone_by_half_of_the_variables(const Variables& variables) {
  const auto rank = variables(kByVariables.rank), size = variables(kByVariables.size);
  if (rank.has_value() == size.has_value()) return {};
  // If only RANK is set, it may be another program's variable; it counts as ours only if MASTER_ADDR is set too. If
  // only WORLD_SIZE is set, it counts unless it is 1, because 1 is right for a process that runs alone.
  const bool means_it = size ? std::atoi(size->c_str()) != 1 : variables("MASTER_ADDR").has_value();
  if (!means_it) return {};
  const char* const set = size ? kByVariables.size : kByVariables.rank;
  const char* const missing = size ? kByVariables.rank : kByVariables.size;
  return text("this process runs alone: ", set, "=", size ? *size : *rank, " is set, but ", missing,
              " is not; set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT to join others, or unset ", set);
}

int number_of(const Variables& variables, const char* name, int otherwise) {
  const auto value = variables(name);
  return value ? int(parse_number(name, *value, 0, std::numeric_limits<int>::max())) : otherwise;
}

std::string Placement::task() const {
  return text("task ", rank < 0 ? "?" : std::to_string(rank), size < 0 ? "" : text(" of ", size), " of ", launcher);
}

std::vector<Placement> placements(const Variables& variables, const Processes& processes) {
  if (auto ours = placed_by(kOurs, variables)) return {std::move(*ours)};
  std::vector<Placement> found;
  const auto add = [&](std::optional<Placement> one) {
    if (one) found.push_back(std::move(*one));
  };
  add(placed_by(kTorchrun, variables));
  const bool in_shell = in_interactive_shell(variables, processes);
  for (const Launcher& launcher : kProcessManagers)
    if (!in_shell || !is_slurms(launcher.way, variables)) add(placed_by(launcher, variables));
  if (!variables(kTorchrun.mark)) add(placed_by_variables(variables));
  require_agreement(found);
  add(placed_by(kHorovodrun, variables));
  if (!in_shell) add(slurm_step(variables));
  for (const Launcher& scheduler : kSchedulers)
    if (auto task = placed_by(scheduler, variables); task && !is_script(*task)) add(std::move(task));
  return found;
}

std::vector<Placement> placements() {
  return placements(environment, {getpgrp(), getsid});
}

}  // namespace anello::rendezvous
