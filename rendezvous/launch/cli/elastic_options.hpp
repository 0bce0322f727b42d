// The options of `anello run` that make a job elastic: Anello's own, Horovod's, and torchrun's form `--nnodes MIN:MAX`.
// Pure, except that it runs the script that lists the hosts.
#pragma once
#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/launch/job/host_selection.hpp"
#include "rendezvous/launch/job/job.hpp"

namespace anello::launch {

// As they are on the command line.
struct ElasticOptions {
  std::string min_np, max_np, max_restarts, timeout, on_failure, discovery, reset_limit;
  std::vector<std::string> cooldown;     // two numbers of seconds
  std::vector<std::string> of_torchrun;  // --rdzv-id and so on
};

void add_elastic_options(CLI::App& app, ElasticOptions& options);

// Returns nothing if the job is not elastic. Replaces torchrun's form in both arguments by Anello's own options. Throws
// Error{configuration}.
std::optional<ElasticJob> parse_elastic(ElasticOptions& options, HostOptions& hosts);

// If the script of --host-discovery-script is given, waits until it lists enough hosts. Throws Error{configuration}.
void find_hosts(const ElasticOptions& options, HostOptions& hosts, Job& job);

}  // namespace anello::launch
