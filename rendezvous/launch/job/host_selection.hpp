// Decides where the ranks of `anello run` run: by the options, or else by the allocation of a scheduler. Pure, except
// that it reads host files and the scheduler's files.
#pragma once
#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/launch/job/allocation.hpp"
#include "rendezvous/launch/job/job.hpp"

namespace anello::launch {

struct HostOptions {
  std::string ranks, per_host;                    // -n, -N
  std::string host_list, host_file;               // -H, --hostfile
  std::string ssh;                                // --ssh; empty: ANELLO_SSH or the scheduler's own command
  std::vector<std::string> exported;              // -x
  std::string nodes, node, rendezvous;            // --nnodes, --node-rank, --rendezvous
  std::optional<std::pair<int, int>> node_range;  // --nnodes MIN:MAX; no value: --nnodes has another form
  Hosts discovered;                               // the hosts that the script of --host-discovery-script has listed
};

void add_host_options(CLI::App& app, HostOptions& options);

// Sets the job's size, layout, remote start and rendezvous. Sets the variables of -x in this process. `find`: finds the
// allocation of this process, like find_allocation(). Throws Error{configuration} and Error{file}.
using FindAllocation = std::function<std::optional<Allocation>()>;
void select_hosts(const HostOptions& options, const FindAllocation& find, Job& job);

// Reads the job's host file, and names the hosts as select_hosts() does. Throws the errors of select_hosts().
Hosts read_hosts_again(const Job& job);

// True if a folder of PATH has this program.
bool in_path(const std::string& program);

}  // namespace anello::launch
