#include "rendezvous/launch/job/allocation.hpp"

#include <algorithm>
#include <anello/error.hpp>
#include <sstream>

#include "rendezvous/join/slurm_node_list.hpp"
#include "rendezvous/join/slurm_step.hpp"
#include "ring/base/config.hpp"
#include "ring/base/text.hpp"

namespace anello::launch {
namespace {

constexpr long kMaxHostSlots = 65536;

Error not_understood(std::string_view what, std::string_view value) {
  return {ErrorCode::configuration, text(what, "='", printable(value), "' cannot be understood; name the hosts by -H")};
}

// Reads Slurm's lists. If a list cannot be parsed, adds the launcher's remedy to the error.
template <class Expand>
auto expanded(Expand expand, std::string_view variable, std::string_view list) try {
  return expand(variable, list);
} catch (const Error& error) {
  throw Error(error.code(), text(error.message(), "; name the hosts by -H"));
}

// Returns Slurm's allocation. A task of a step, such as the shell of `srun --pty`, has the variables of the step, and
// so only the hosts of the step.
std::optional<Allocation> slurm(const Variables& lookup) {
  const bool in_step =
      lookup("SLURM_STEP_ID") && lookup("SLURM_STEP_NODELIST") && !rendezvous::is_step_of_salloc(lookup);
  const char* const nodes = in_step ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST";
  const char* const tasks =
      in_step && lookup("SLURM_STEP_TASKS_PER_NODE") ? "SLURM_STEP_TASKS_PER_NODE" : "SLURM_TASKS_PER_NODE";
  const auto hosts = lookup(nodes), numbers = lookup(tasks);
  if (!hosts) return std::nullopt;
  if (lookup("SLURM_HET_SIZE"))
    throw Error(ErrorCode::configuration,
                "this is a heterogeneous job of Slurm, and only one part of it is known here; name all hosts by -H");
  Allocation found{Scheduler::slurm, text("Slurm job ", lookup("SLURM_JOB_ID").value_or("?")), {}};
  const std::vector<std::string> names = expanded(rendezvous::expand_slurm_nodes, nodes, *hosts);
  const std::vector<int> counts =
      numbers ? expanded(rendezvous::expand_slurm_counts, tasks, *numbers) : std::vector<int>(names.size(), 1);
  for (const std::string& name : names) check_host_name(nodes, name);
  if (counts.size() != names.size())
    throw Error(ErrorCode::configuration, text(nodes, "='", *hosts, "' has ", names.size(), " hosts, but ", tasks, "='",
                                               *numbers, "' has ", counts.size(), " numbers; name the hosts by -H"));
  for (std::size_t i = 0; i < names.size(); i++) add_host(found.hosts, {names[i], counts[i]});
  return found;
}

// Calls `use` with the words of each line.
template <class Use>
void each_line(const std::string& path, const std::string& content, Use use) {
  std::istringstream lines(content);
  std::string line;
  for (int number = 1; std::getline(lines, line); number++) {
    std::istringstream stream(line);
    std::vector<std::string> words;
    for (std::string word; stream >> word;) words.push_back(word);
    if (words.empty()) continue;
    check_host_name(text(path, ":", number), words[0]);
    use(text(path, ":", number), words);
  }
}

// Reads one host a line. PBS writes a line for each slot of a host.
std::optional<Allocation> node_file(const Variables& lookup, const ReadFile& read, const char* variable,
                                    Allocation found, std::optional<int> slots) {
  const auto path = lookup(variable);
  if (!path) return std::nullopt;
  each_line(*path, read(*path), [&](const std::string&, const std::vector<std::string>& words) {
    add_host(found.hosts, {words[0], slots});
  });
  if (found.hosts.empty()) throw not_understood(variable, *path);
  return found;
}

// Reads lines "host slots queue processors".
std::optional<Allocation> grid_engine(const Variables& lookup, const ReadFile& read) {
  const auto path = lookup("PE_HOSTFILE");
  if (!path) return std::nullopt;
  Allocation found{Scheduler::grid_engine, text("Grid Engine job ", lookup("JOB_ID").value_or("?")), {}};
  each_line(*path, read(*path), [&](const std::string& where, const std::vector<std::string>& words) {
    const int slots = words.size() > 1 ? int(parse_number(where + ": slots", words[1], 1, kMaxHostSlots)) : 1;
    add_host(found.hosts, {words[0], slots});
  });
  if (found.hosts.empty()) throw not_understood("PE_HOSTFILE", *path);
  return found;
}

// Reads "host slots host slots".
std::optional<Allocation> lsf(const Variables& lookup) {
  const auto list = lookup("LSB_MCPU_HOSTS");
  if (!list) return std::nullopt;
  Allocation found{Scheduler::lsf, text("LSF job ", lookup("LSB_JOBID").value_or("?")), {}};
  std::istringstream words(*list);
  for (std::string name, slots; words >> name;) {
    if (!(words >> slots)) throw not_understood("LSB_MCPU_HOSTS", *list);
    check_host_name("LSB_MCPU_HOSTS", name);
    add_host(found.hosts, {name, int(parse_number("LSB_MCPU_HOSTS", slots, 1, kMaxHostSlots))});
  }
  if (found.hosts.empty()) throw not_understood("LSB_MCPU_HOSTS", *list);
  return found;
}

}  // namespace

std::optional<Allocation> find_allocation(const Variables& lookup, const ReadFile& read) {
  if (auto found = slurm(lookup)) return found;
  if (auto found = grid_engine(lookup, read)) return found;
  if (auto found = lsf(lookup)) return found;
  const Allocation cobalt{Scheduler::cobalt, text("Cobalt job ", lookup("COBALT_JOBID").value_or("?")), {}};
  if (auto found = node_file(lookup, read, "COBALT_NODEFILE", cobalt, std::nullopt)) return found;
  const Allocation pbs{Scheduler::pbs, text("PBS job ", lookup("PBS_JOBID").value_or("?")), {}};
  return node_file(lookup, read, "PBS_NODEFILE", pbs, 1);
}

}  // namespace anello::launch
