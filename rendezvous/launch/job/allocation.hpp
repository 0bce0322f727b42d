// The allocation in which this process runs, as its scheduler describes it: hosts, slots, and the scheduler's own
// command to start a process on a host. The schedulers are Slurm, PBS, Cobalt, Grid Engine and LSF. Pure: the
// environment and files are passed in. Any thread.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/join/job_environment.hpp"
#include "rendezvous/launch/job/hosts.hpp"

namespace anello::launch {

enum class Scheduler { slurm, pbs, cobalt, grid_engine, lsf };

struct Allocation {
  Scheduler scheduler;
  std::string name;  // the allocation's name for messages, such as "Slurm job 7"
  Hosts hosts;
};

using rendezvous::Variables;
using ReadFile = std::function<std::string(const std::string& path)>;

// Returns nothing outside an allocation. If a variable or file cannot be parsed, throws Error{configuration} that names
// it.
std::optional<Allocation> find_allocation(const Variables& lookup, const ReadFile& read);

}  // namespace anello::launch
