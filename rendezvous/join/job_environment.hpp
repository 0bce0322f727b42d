// Finds out from the environment which program started this process, which rank it is, how many ranks there are, and
// how the ranks can meet. Only reads variables, through a function, so that tests can replace the environment. Any
// thread.
//
// The first source that is found decides. The order is: ANELLO_ variables; torchrun; Open MPI; MVAPICH; PMI (MPICH,
// Intel MPI, srun --mpi=pmi2); PMIx (srun --mpi=pmix); RANK and WORLD_SIZE; horovodrun; a Slurm step; a scheduler's
// task number without the number of tasks. The order goes from the innermost launcher to the outermost: mpirun and
// torchrun may themselves run in a Slurm step, and then the tasks of the step are not the ranks. In a rank of `anello
// run`, only its ANELLO_ variables count: `anello run` also sets RANK and similar variables for its ranks, and the
// ranks inherit variables of the program that started `anello run`.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace anello::rendezvous {

using Variables = std::function<std::optional<std::string>(const char*)>;

// Facts about processes, which tests replace.
struct Processes {
  int own_group;                           // the number of this process's process group
  std::function<int(int pid)> session_of;  // the process that leads the session of `pid`; -1: `pid` does not exist
};

// Returns a warning for the user of a process that runs alone, although RANK or WORLD_SIZE is set as if there were
// several processes. Empty if there is no reason to warn.
std::string alone_by_half_of_the_variables(const Variables& variables);

// Returns the number in a variable, or `otherwise` if the variable is not set. Throws Error{configuration}.
int number_of(const Variables& variables, const char* name, int otherwise);

// The means by which ranks can meet: a process manager (PMI, PMIx), the first host of a Slurm step, or MASTER_ADDR.
enum class Way { none, pmi, pmix, first_host, master };

// The place of this process according to one source. Numbers are -1 if the source does not give them.
struct Placement {
  std::string launcher;  // "Slurm step 7.0"
  std::string evidence;  // "SLURM_PROCID=3, SLURM_STEP_NUM_TASKS=6"
  int rank = -1, size = -1, local_rank = -1, local_size = -1;
  Way way = Way::none;
  std::string job;  // for first_host and master: a name that differs from the names of all other jobs at the same time
  // For first_host and master: the name from which the ranks compute where to look for each other. It is the job's name
  // without the number of the run. So ranks of different runs may meet there, and can then report that their runs
  // differ.
  std::string place;
  std::string host;        // for first_host and master: the host on which the rendezvous is
  std::uint16_t port = 0;  // for master: port of the rendezvous, if that port is free; 0: not given
  bool serves = false;     // for first_host and master: true if this process runs the rendezvous
  bool one_host = false;   // true if all ranks are on this host
  bool exported = false;   // true if the source's variables may be left over in a shell
  std::string unusable;    // why the source cannot be used, and the remedy; empty if the source can be used

  std::string task() const;  // "task 3 of 6 of Slurm step 7.0"
};

// Returns all sources in the order above; in a rank of `anello run`, only `anello run`. ANELLO_ variables that a user
// has set are not a source. The result is empty for a shell, a batch script or a program started by hand. Throws
// Error{configuration} if a variable that should be a number is not a number, or if two sources contradict each other
// and either may be right.
std::vector<Placement> placements(const Variables& variables, const Processes& processes);
std::vector<Placement> placements();  // reads this process's environment

}  // namespace anello::rendezvous
