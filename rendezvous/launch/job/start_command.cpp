#include "rendezvous/launch/job/start_command.hpp"

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "rendezvous/launch/base/shell_words.hpp"
#include "rendezvous/protocol/host.hpp"
#include "ring/base/text.hpp"
#include "ring/net/addresses.hpp"

namespace anello::launch {
namespace {

// A user may have any shell on the other host, so this is written in a form that every shell understands.
constexpr const char* kScript = R"(if [ -x "$0" ]; then exec "$0" agent "$@"; fi; exec anello agent "$@")";

// Returns the command line for starters that pass one line to a shell on the other host.
std::string remote_line(const std::string& program, int number) {
  return text("exec /bin/sh -c ", quoted(kScript), " ", quoted(program), " ", number);
}

// Appends ssh's options, if the command is ssh itself.
void add_ssh_options(std::vector<std::string>& words) {
  if (std::filesystem::path(words.front()).filename() != "ssh") return;
  words.insert(words.end(), {"-x", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=20"});
}

// Starts one agent on each of these hosts. The options let the agent use everything that the allocation has on its
// host, even while other steps run.
StartCommand srun(const Job& job, const std::string& program, std::vector<int> hosts) {
  StartCommand out{job.remote->command, {}, "srun", false, true};
  const std::string count = std::to_string(hosts.size());
  const std::string step_name = std::filesystem::path(job.command.front()).filename().string();
  std::string names;
  for (const int host : hosts) names += (names.empty() ? "" : ",") + job.layout[std::size_t(host)].host;
  out.hosts = std::move(hosts);
  out.words.insert(out.words.end(),
                   {"--nodes=" + count, "--ntasks=" + count, "--ntasks-per-node=1", "--nodelist=" + names,
                    "--distribution=block", "--overlap", "--mem=0", "--cpu-bind=none", "--mpi=none", "--input=all",
                    "--kill-on-bad-exit=0", "--wait=0", "--export=ALL", "--quiet", "--job-name=" + step_name});
  if (job.elastic) out.words.emplace_back("--no-kill");
  out.words.insert(out.words.end(), {"/bin/sh", "-c", kScript, program});
  return out;
}

StartCommand on_host(const Job& job, const std::string& program, int number) {
  const std::string& host = job.layout[std::size_t(number)].host;
  StartCommand out{job.remote->command, {number}, {}, false};
  for (const std::string& word : job.remote->command) out.shown += quoted(word) + " ";
  out.shown += host;
  if (job.remote->starter == Starter::ssh) add_ssh_options(out.words);
  out.words.push_back(host);
  out.words.push_back(remote_line(program, number));
  return out;
}

}  // namespace

StartCommand start_command(const Job& job, int number, const std::string& program,
                           const std::function<bool(const std::string&)>& is_here) {
  if (job.remote->starter == Starter::srun) return srun(job, program, {number});
  if (!is_here(job.layout[std::size_t(number)].host)) return on_host(job, program, number);
  return {{program, "agent", std::to_string(number)}, {number}, "the agent on this host", true};
}

// With srun, one command starts the agents of all hosts, in one step. But if Slurm loses a host of a step, it ends the
// whole step. So each host of an elastic job has its own command and its own step.
std::vector<StartCommand> start_commands(const Job& job, const std::string& program,
                                         const std::function<bool(const std::string&)>& is_here) {
  std::vector<int> hosts(job.layout.size());
  std::iota(hosts.begin(), hosts.end(), 0);
  if (job.remote->starter == Starter::srun && !job.elastic) return {srun(job, program, std::move(hosts))};
  std::vector<StartCommand> out;
  for (const int host : hosts) out.push_back(start_command(job, host, program, is_here));
  return out;
}

bool is_this_host(const std::string& name) {
  const std::string own = rendezvous::host_name();
  return name == "localhost" || name == own || name == own.substr(0, own.find('.')) || net::is_local(name);
}

bool all_on_this_host(const Job& job) {
  return job.remote->starter != Starter::srun &&
         std::ranges::all_of(job.layout, [](const HostRanks& here) { return is_this_host(here.host); });
}

}  // namespace anello::launch
