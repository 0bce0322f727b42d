#include "rendezvous/launch/job/host_selection.hpp"

#include <unistd.h>

#include <algorithm>
#include <anello/error.hpp>
#include <iostream>
#include <sstream>

#include "rendezvous/launch/base/shell_words.hpp"
#include "rendezvous/launch/job/layout.hpp"
#include "rendezvous/launch/job/master.hpp"
#include "rendezvous/launch/job/remote_environment.hpp"
#include "rendezvous/launch/job/start_command.hpp"
#include "rendezvous/protocol/host.hpp"
#include "rendezvous/protocol/resolve.hpp"
#include "ring/base/config.hpp"
#include "ring/base/text.hpp"
#include "ring/net/addresses.hpp"

namespace anello::launch {
namespace {

constexpr long kMaxRanks = 65536;

Error wrong(const std::string& why) {
  return {ErrorCode::configuration, why};
}

std::optional<int> number(std::string_view what, const std::string& digits) {
  if (digits.empty()) return std::nullopt;
  return int(parse_number(what, digits, 1, kMaxRanks));
}

// Selects the ranks of this launcher if several launchers start one world. Each of them starts the same number of ranks
// on its host.
void select_this_node(const HostOptions& options, Job& job) {
  if (options.node.empty() || options.rendezvous.empty() || options.nodes.empty())
    throw wrong(
        "--nnodes, --node-rank and --rendezvous belong together: give all three, the first and the last the same on "
        "all hosts");
  if (!options.host_list.empty() || !options.host_file.empty())
    throw wrong("-H and --hostfile start ranks on all hosts from one command: give either these or --nnodes");
  const int nodes = *number("--nnodes", options.nodes);
  const auto node = int(parse_number("--node-rank", options.node, 0, nodes - 1));
  const auto per_host = number("-N", options.per_host);
  const auto given = options.ranks.empty() ? per_host : number("-n", options.ranks);
  if (!given) throw wrong("the number of ranks is missing; add -n N, the ranks on this host");
  if (per_host && *per_host != *given)
    throw wrong("with --nnodes, -n and -N both are the ranks on this host; give one");
  if (long(*given) * nodes > kMaxRanks) throw wrong(text("more than ", kMaxRanks, " ranks"));
  if (net::parse_host_port("--rendezvous", options.rendezvous).port == 0)
    throw wrong("--rendezvous needs a port that is the same on all hosts, not 0");
  job.rendezvous = options.rendezvous;
  job.size = *given * nodes;
  job.layout = {{rendezvous::host_name(), node * *given, *given}};
}

// Returns the scheduler's own start command.
std::optional<RemoteStart> own_start(const Allocation& allocation) {
  switch (allocation.scheduler) {
    case Scheduler::slurm:
      return RemoteStart{Starter::srun, {"srun"}};
    case Scheduler::grid_engine:
      return RemoteStart{Starter::qrsh, {"qrsh", "-inherit"}};
    case Scheduler::lsf:
      return RemoteStart{Starter::blaunch, {"blaunch"}};
    case Scheduler::pbs:
    case Scheduler::cobalt:
      break;
  }
  return std::nullopt;
}

// True if a host of an allocation is this host.
bool is_here(const std::string& host) {
  if (environment("SLURMD_NODENAME") == host || is_this_host(host)) return true;
  asio::error_code failure;
  const auto found = rendezvous::resolve(host, 0, failure);
  return !found.empty() &&
         std::ranges::all_of(found, [](const auto& where) { return net::is_local(where.address().to_string()); });
}

std::string names_of(const Hosts& hosts) {
  std::vector<std::string> names;
  for (const Host& host : hosts) names.push_back(host.name);
  return list_hosts(names);
}

// Replaces the host names that the user gave by the scheduler's names.
Hosts allocated(const Hosts& hosts, const Allocation& allocation) {
  Hosts out;
  for (Host host : hosts) {
    const auto known = std::ranges::find_if(allocation.hosts, [&](const Host& one) {
      return same_host(host.name, one.name) || (is_this_host(host.name) && is_here(one.name));
    });
    if (known == allocation.hosts.end())
      throw wrong(text("host ", host.name, " is not in ", allocation.name, ", which has ", names_of(allocation.hosts),
                       "; leave it out, or add --ssh ssh to start on all hosts by ssh, outside of the job's limits and "
                       "accounting"));
    host.name = known->name;
    add_host(out, std::move(host));
  }
  return out;
}

RemoteStart remote_start(const HostOptions& options, const std::optional<Allocation>& allocation) {
  if (options.ssh.empty() && allocation)
    if (const auto own = own_start(*allocation)) {
      if (in_path(own->command.front())) return *own;
      std::cerr << "anello: " << own->command.front() << " is not in PATH, so ranks are started by ssh, outside of the "
                << "limits and accounting of " << allocation->name << ", as with --ssh ssh\n";
    }
  const char* const what = options.ssh.empty() ? "ANELLO_SSH" : "--ssh";
  const std::string command = options.ssh.empty() ? Settings::from_environment().ssh : options.ssh;
  RemoteStart start{Starter::ssh, split_words(what, command)};
  if (start.command.empty()) throw wrong(text(what, ": the command is empty"));
  return start;
}

// Returns the hosts that the options name. Empty if they name none.
Hosts named_hosts(const HostOptions& options) {
  if (!options.host_list.empty() && !options.host_file.empty())
    throw wrong("-H and --hostfile both name hosts; give one of them");
  if (!options.discovered.empty()) return options.discovered;
  if (!options.host_list.empty()) return parse_host_list("-H", options.host_list);
  if (!options.host_file.empty()) return read_host_file(options.host_file);
  return {};
}

// Finds the allocation. If the options name hosts, an allocation that cannot be parsed is ignored.
std::optional<Allocation> allocation_for(const Hosts& named, const FindAllocation& find) try {
  return find();
} catch (const Error&) {
  if (named.empty()) throw;
  return std::nullopt;
}

// Checks the number of hosts if --nnodes limits it.
void check_node_range(const HostOptions& options, const Hosts& hosts) {
  if (!options.node_range) return;
  const auto [min, max] = *options.node_range;
  const std::string given = text("--nnodes ", min, ":", max);
  if (hosts.empty() && max > 1)
    throw wrong(given +
                " needs the names of the hosts, because one `anello run` starts the processes on all of them: "
                "add -H h1,h2, --hostfile FILE or --host-discovery-script COMMAND, or run it once in an "
                "allocation; for this host alone write --nnodes 1:1");
  if (!hosts.empty() && hosts.size() < std::size_t(min))
    throw wrong(text(given, ": there ", hosts.size() == 1 ? "is only " : "are only ", names_of(hosts)));
}

// Gives a place to each process that an elastic job may have. The processes with which the job begins have the first
// places.
void lay_out_places(Hosts& hosts, bool local, Wanted wanted, Job& job) {
  ElasticJob& elastic = *job.elastic;
  elastic.first = job.started_ranks();
  const int most = job.discovery.empty() ? elastic.first : kMaxRanks;
  elastic.max = elastic.max > 0 ? elastic.max : most;
  if (!wanted.ranks) elastic.first = std::min(elastic.first, elastic.max);
  elastic.min = elastic.min > 0 ? elastic.min : elastic.first;
  if (elastic.min > elastic.first || elastic.first > elastic.max)
    throw wrong(text("--min-np (", elastic.min, ") must be at most -n (", elastic.first,
                     "), and that at most --max-np (", elastic.max, ")"));
  wanted.ranks = elastic.max;
  wanted.or_fewer = true;
  if (local) hosts[0].slots = elastic.max;
  if (!job.discovery.empty()) wanted.ranks.reset();  // lays out all slots, because the job may grow later
  job.layout = lay_out(hosts, wanted);
  if (!job.discovery.empty()) elastic.first = std::min(job.started_ranks(), elastic.max);
}

}  // namespace

void add_host_options(CLI::App& app, HostOptions& options) {
  app.add_option("-n,--np", options.ranks,
                 "number of ranks (also -np); with -H or in an allocation, by default all slots")
      ->type_name("N");
  app.add_option("-H,--host", options.host_list, "hosts and how many ranks they may run: h1:4,h2:4,[fd00::3]:4")
      ->type_name("HOSTS");
  app.add_option("--hostfile", options.host_file, "file with a host on each line: h1 slots=4")->type_name("FILE");
  app.add_option("-N,--ntasks-per-node,--nproc-per-node", options.per_host,
                 "ranks on each host, whatever its slots are")
      ->type_name("N");
  app.add_option("-x", options.exported, "variable that ranks on other hosts get, or that all get with this value")
      ->type_name("NAME[=VALUE]")
      ->allow_extra_args(false);
  app.add_option("--ssh", options.ssh, "command that starts a program on another host (ANELLO_SSH)")
      ->type_name("COMMAND");
  app.add_option("--nnodes", options.nodes,
                 "number of hosts on each of which you start anello run -n N; or MIN:MAX, the number of hosts of "
                 "an elastic job that this launcher starts, with --nproc-per-node")
      ->type_name("M|MIN:MAX");
  app.add_option("--node-rank", options.node, "with --nnodes: number of this host, from 0")->type_name("K");
  app.add_option("--rendezvous", options.rendezvous, "with --nnodes: address of host 0, and a free port there")
      ->type_name("HOST:PORT");
}

void select_hosts(const HostOptions& options, const FindAllocation& find, Job& job) {
  for (const std::string& entry : options.exported) job.exported.push_back(export_variable(entry));
  job.master = given_master(job.exported);
  if (!options.nodes.empty() || !options.node.empty() || !options.rendezvous.empty()) {
    if (job.elastic) throw wrong("--min-np and --max-np need one launcher for all hosts: write -H instead of --nnodes");
    return select_this_node(options, job);
  }
  Wanted wanted{number("-n", options.ranks), number("-N", options.per_host)};
  Hosts hosts = named_hosts(options);
  const bool named = !hosts.empty();
  const std::optional<Allocation> allocation = allocation_for(hosts, find);
  if (named && options.ssh.empty()) job.allocation = allocation;
  if (job.allocation) hosts = allocated(hosts, *job.allocation);
  if (!named && allocation) hosts = allocation->hosts;
  check_node_range(options, hosts);
  // Slots only distribute ranks over several hosts. A single host runs as many ranks as the user asks for.
  if (!named && hosts.size() == 1 && (wanted.ranks || wanted.per_host)) hosts[0].slots.reset();
  const bool local = hosts.empty() || (!named && hosts.size() == 1 && is_here(hosts[0].name));
  if (!local) {
    job.remote = remote_start(options, allocation);
  } else {
    if (hosts.empty() && !wanted.ranks && !wanted.per_host) throw wrong("the number of ranks is missing; add -n N");
    hosts = {{rendezvous::host_name(), hosts.empty() ? wanted.ranks : hosts[0].slots}};
  }
  job.layout = lay_out(hosts, wanted);
  if (job.elastic) lay_out_places(hosts, local, wanted, job);
  job.hosts = std::move(hosts);
  job.per_host = wanted.per_host;
  if (job.elastic && options.host_file != "-") job.host_file = options.host_file;
  job.size = job.started_ranks();
  if (job.size > kMaxRanks) throw wrong(text("at most ", kMaxRanks, " ranks, not ", job.size));
}

Hosts read_hosts_again(const Job& job) {
  const Hosts hosts = read_host_file(job.host_file);
  return job.allocation ? allocated(hosts, *job.allocation) : hosts;
}

bool in_path(const std::string& program) {
  std::istringstream folders(environment("PATH").value_or(""));
  for (std::string folder; std::getline(folders, folder, ':');)
    if (access((folder + "/" + program).c_str(), X_OK) == 0) return true;
  return false;
}

}  // namespace anello::launch
