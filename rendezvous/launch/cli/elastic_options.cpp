#include "rendezvous/launch/cli/elastic_options.hpp"

#include <anello/error.hpp>

#include "rendezvous/launch/run/host_discovery.hpp"
#include "ring/base/config.hpp"
#include "ring/base/text.hpp"

namespace anello::launch {
namespace {

constexpr long kMaxProcesses = ElasticJob::kMaxProcesses, kMaxReplaced = 1000000, kMaxSeconds = 366 * 86400;
constexpr int kUsualReplaced = 10;

Error wrong_elastic(const std::string& why) {
  return {ErrorCode::configuration, why};
}

// In torchrun's form, "--nnodes 1:4 --nproc-per-node 8" means "-N 8 --min-np 8 --max-np 32". There is one launcher for
// all hosts, so options such as --rdzv-endpoint have no meaning.
void replace_form_of_torchrun(ElasticOptions& options, HostOptions& hosts) {
  const std::string given = "--nnodes " + hosts.nodes;
  const std::size_t colon = hosts.nodes.find(':');
  if (colon == std::string::npos) {
    if (options.of_torchrun.empty()) return;
    throw wrong_elastic(
        "--rdzv-endpoint, --rdzv-id, --rdzv-backend and --rdzv-conf belong to --nnodes MIN:MAX, where they are not "
        "needed; with --nnodes N, write --rendezvous HOST:PORT");
  }
  const int min = int(parse_number("--nnodes", hosts.nodes.substr(0, colon), 1, kMaxProcesses));
  const int max = int(parse_number("--nnodes", hosts.nodes.substr(colon + 1), 1, kMaxProcesses));
  if (min > max) throw wrong_elastic(given + ": the smaller number comes first");
  if (!hosts.node.empty() || !hosts.rendezvous.empty())
    throw wrong_elastic(given +
                        " has one launcher for all hosts: leave out --node-rank and --rendezvous, and write -H "
                        "h1,h2 or --hostfile FILE");
  if (!options.min_np.empty() || !options.max_np.empty())
    throw wrong_elastic(given + " says how many processes there are: leave out --min-np and --max-np");
  if (hosts.per_host.empty()) throw wrong_elastic(given + " needs --nproc-per-node P, the processes on each host");
  const long each = parse_number("--nproc-per-node", hosts.per_host, 1, kMaxProcesses);
  if (max * each > kMaxProcesses) throw wrong_elastic(text(given, ": more than ", kMaxProcesses, " processes"));
  options.min_np = text(min * each);
  options.max_np = text(max * each);
  if (!options.discovery.empty() && hosts.ranks.empty()) hosts.ranks = options.min_np;
  hosts.node_range = {min, max};
  hosts.nodes.clear();
}

ElasticJob::OnFailure parse_on_failure(const std::string& word) {
  if (word.empty() || word == "place") return ElasticJob::OnFailure::place;
  if (word == "host") return ElasticJob::OnFailure::host;
  if (word == "job") return ElasticJob::OnFailure::job;
  throw wrong_elastic(text("--on-failure must be place, host or job, not '", word, "'"));
}

std::optional<Cooldown> parse_cooldown(const std::vector<std::string>& given) {
  if (given.empty()) return std::nullopt;
  const char* const what = "--blacklist-cooldown-range";
  const std::chrono::seconds first(parse_number(what, given.front(), 1, kMaxSeconds));
  const std::chrono::seconds max(parse_number(what, given.back(), 1, kMaxSeconds));
  if (first > max)
    throw wrong_elastic(text(what, " ", first.count(), " ", max.count(), ": the smaller number comes first"));
  return Cooldown{first, max};
}

void refuse_without_limits(const ElasticOptions& options) {
  const std::string given = options.max_restarts + options.on_failure + options.timeout + options.discovery +
                            options.reset_limit + (options.cooldown.empty() ? "" : "given");
  if (!given.empty())
    throw wrong_elastic(
        "--max-restarts, --on-failure, --host-discovery-script, --elastic-timeout, --reset-limit and "
        "--blacklist-cooldown-range are for elastic jobs: add --min-np N; or write --restarts N to start all ranks "
        "again after a failure");
}

}  // namespace

void add_elastic_options(CLI::App& app, ElasticOptions& options) {
  app.add_option("--min-np,--min-num-proc", options.min_np,
                 "makes the job elastic: processes that fail are replaced, and the others go on if N are left; by "
                 "default -n")
      ->type_name("N");
  app.add_option("--max-np,--max-num-proc", options.max_np, "makes the job elastic: at most N processes; by default -n")
      ->type_name("N");
  app.add_option("--max-restarts", options.max_restarts,
                 "how many processes of an elastic job are started again; by default 10")
      ->type_name("N");
  app.add_option("--on-failure", options.on_failure,
                 "what a failed process of an elastic job ends: only itself (place), all of its host, or the job")
      ->type_name("place|host|job");
  app.add_option("--host-discovery-script", options.discovery,
                 "command that lists the hosts of an elastic job, one a line (h1:4), each second: the job grows to "
                 "--max-np on new ones, and leaves those that are missing")
      ->type_name("COMMAND");
  app.add_option("--elastic-timeout", options.timeout,
                 "how long an elastic job waits while it has fewer than --min-np processes; by default 600")
      ->type_name("SECONDS");
  app.add_option("--reset-limit", options.reset_limit, "how often the processes of an elastic job may change")
      ->type_name("N");
  app.add_option("--blacklist-cooldown-range", options.cooldown,
                 "how long a host is not used after its first loss, and at most; by default 10 600. With --on-failure "
                 "host, also after a failure")
      ->type_name("SECONDS")
      ->expected(2);
  app.add_option("--rdzv-endpoint,--rdzv-id,--rdzv-backend,--rdzv-conf", options.of_torchrun,
                 "torchrun's; not needed with --nnodes MIN:MAX")
      ->type_name("TEXT")
      ->allow_extra_args(false);
}

std::optional<ElasticJob> parse_elastic(ElasticOptions& options, HostOptions& hosts) {
  replace_form_of_torchrun(options, hosts);
  if (options.min_np.empty() && options.max_np.empty()) return refuse_without_limits(options), std::nullopt;
  ElasticJob elastic;
  if (!options.min_np.empty()) elastic.min = int(parse_number("--min-np", options.min_np, 1, kMaxProcesses));
  if (!options.max_np.empty()) elastic.max = int(parse_number("--max-np", options.max_np, 1, kMaxProcesses));
  elastic.max_restarts = options.max_restarts.empty()
                             ? kUsualReplaced
                             : int(parse_number("--max-restarts", options.max_restarts, 0, kMaxReplaced));
  elastic.on_failure = parse_on_failure(options.on_failure);
  if (!options.timeout.empty())
    elastic.patience = std::chrono::seconds(parse_number("--elastic-timeout", options.timeout, 1, kMaxSeconds));
  if (!options.reset_limit.empty())
    elastic.reset_limit = int(parse_number("--reset-limit", options.reset_limit, 0, kMaxReplaced));
  elastic.cooldown = parse_cooldown(options.cooldown);
  return elastic;
}

void find_hosts(const ElasticOptions& options, HostOptions& hosts, Job& job) {
  if (options.discovery.empty()) return;
  if (!hosts.host_list.empty() || !hosts.host_file.empty())
    throw wrong_elastic("--host-discovery-script lists the hosts: leave out -H and --hostfile");
  if (!job.elastic || hosts.ranks.empty())
    throw wrong_elastic("--host-discovery-script is for elastic jobs: add -n N and --min-np N");
  job.discovery = options.discovery;
  const int first = int(parse_number("-n", hosts.ranks, 1, kMaxProcesses));
  const int slots = hosts.per_host.empty() ? 0 : int(parse_number("-N", hosts.per_host, 1, kMaxProcesses));
  hosts.discovered = discover_hosts(job.discovery, first, slots, Settings::from_environment().start_timeout);
}

}  // namespace anello::launch
