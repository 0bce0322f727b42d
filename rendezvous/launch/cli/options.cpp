#include "rendezvous/launch/cli/options.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "rendezvous/launch/base/timestamp.hpp"
#include "rendezvous/launch/job/binding.hpp"
#include "rendezvous/launch/job/host_selection.hpp"
#include "rendezvous/launch/output/mixer.hpp"
#include "rendezvous/launch/output/sink.hpp"
#include "rendezvous/launch/run/host_discovery.hpp"
#include "ring/base/config.hpp"
#include "ring/base/text.hpp"

namespace anello::launch {
namespace {

constexpr double kMaxGrace = 86400, kMaxTimeout = 366 * 86400.0;
constexpr long kMaxRestarts = 1000000, kMaxProcesses = 1 << 20;
constexpr int kUsualRestarts = 10;

// Returns the width that rank 0 may use. It does not include the terminal's last column, because terminals differ in
// when they wrap a full line.
int columns_for_rank_0(const Job& job) {
  const TerminalStyle style = terminal_style(STDOUT_FILENO);
  const std::size_t before = (job.rank_labels ? rank_label(0).size() : 0) + (job.timestamps ? kTimestampColumns : 0);
  return style.terminal ? std::max(style.columns - int(before) - 1, 1) : 0;
}

constexpr const char* kFooter =
    "Examples: anello run -n 4 -- ./train --epochs 3\n"
    "          anello run -H h1:4,h2:4 -- ./train --epochs 3\n\n"
    "Each line of output starts with [rank]. Standard input goes to rank 0.\n"
    "When a rank fails, all other ranks are ended. The exit code is that of the first rank that failed: 128+n if\n"
    "signal n killed it, 127 if the program was not found, 126 if it is not executable. 124 is --timeout, 2 is wrong\n"
    "usage. --restarts does not repeat a job that ends with 2, 126, 127, by --timeout or by a signal to `anello run`.\n"
    "OMP_NUM_THREADS, OPENBLAS_NUM_THREADS and NCCL_LAUNCH_ORDER_IMPLICIT are 1 unless you set them.\n"
    "TF_NUM_INTEROP_THREADS and TF_NUM_INTRAOP_THREADS are a rank's share of the host's cores, unless you set them.\n"
    "Ranks inherit standard input, output and error, and no other open file.\n\n"
    "Environment variables (`anello run` sets ANELLO_RANK to ANELLO_SECRET_FD, and ANELLO_REPORT_FD to "
    "ANELLO_RESTART,\n"
    "for the ranks):\n";

// Options that have other types or units on the command line than in the job.
struct Given {
  HostOptions hosts;
  std::string restarts = "0";
  std::string min_np, max_np, max_restarts, elastic_timeout;
  std::string on_failure, discovery;
  double grace_seconds, timeout_seconds = 0;
  bool no_prefix = false;
};

void add_output_options(CLI::App& app, Job& job, Given& given) {
  app.add_option(
         "--output", job.output_folder,
         "also write the output of rank R to DIR/rank.R.out and DIR/rank.R.err; files of earlier runs are kept, "
         "the next run writes to DIR/2")
      ->type_name("DIR");
  app.add_flag("--no-prefix", given.no_prefix, "do not write [rank] before lines of output");
  app.add_flag("--timestamp", job.timestamps, "write the time (UTC) before each line of output");
  app.add_flag("-v,--verbose", job.verbose, "say what is started, and how long the job took");
}

void add_elastic_options(CLI::App& app, Given& given) {
  app.add_option("--min-np,--min-num-proc", given.min_np,
                 "makes the job elastic: processes that fail are replaced, and the others go on if N are left; by "
                 "default -n")
      ->type_name("N");
  app.add_option("--max-np,--max-num-proc", given.max_np, "makes the job elastic: at most N processes; by default -n")
      ->type_name("N");
  app.add_option("--max-restarts", given.max_restarts,
                 "how many processes of an elastic job are started again; by default 10")
      ->type_name("N");
  app.add_option("--on-failure", given.on_failure,
                 "what a failed process of an elastic job ends: only itself (place), all of its host, or the job")
      ->type_name("place|host|job");
  app.add_option("--host-discovery-script", given.discovery,
                 "command that lists the hosts of an elastic job, one a line (h1:4), each second: the job grows to "
                 "--max-np on new ones, and leaves those that are missing")
      ->type_name("COMMAND");
  app.add_option("--elastic-timeout", given.elastic_timeout,
                 "how long an elastic job waits while it has fewer than --min-np processes; by default 600")
      ->type_name("SECONDS");
}

void add_options(CLI::App& app, Job& job, Given& given) {
  add_host_options(app, given.hosts);
  app.add_flag("--dry-run", job.dry_run, "print what would be started, with its environment, and start nothing");
  app.add_option("--timeout", given.timeout_seconds, "end the job, with its restarts, after this time; exit code 124")
      ->type_name("SECONDS");
  app.add_option("--grace", given.grace_seconds, "how long ranks may take to end before they are killed")
      ->type_name("SECONDS")
      ->capture_default_str();
  app.add_option("--restarts", given.restarts,
                 "start all ranks again after a failure or the loss of a host, at most N times; pauses 1 s, 2 s, 4 s, "
                 "..., 60 s before; programs find the number of the restart in ANELLO_RESTART")
      ->type_name("N");
  add_elastic_options(app, given);
  add_output_options(app, job, given);
  app.add_flag("--bind", job.bind, "run each rank on its own cores (two such jobs would use the same cores)");
  app.add_option("program", job.command, "the program that each rank runs, and its arguments; write -- before it")
      ->type_name("");
  app.footer(kFooter + settings_table(false));
}

std::optional<int> check(const CLI::App& app, const Job& job, const Given& given) {
  if (!(given.grace_seconds >= 0 && given.grace_seconds <= kMaxGrace))
    return misused(app, text("--grace must be 0 to ", kMaxGrace, " seconds, not ", given.grace_seconds));
  if (app.count("--timeout") > 0 && !(given.timeout_seconds > 0 && given.timeout_seconds <= kMaxTimeout))
    return misused(
        app, text("--timeout must be more than 0 and at most ", kMaxTimeout, " seconds, not ", given.timeout_seconds));
  if (job.command.empty() || job.command[0].empty())
    return misused(app, "no program is given; write it after the options: anello run -n 4 -- ./train");
  if (job.bind && !job.remote && job.started_ranks() > allowed_core_count())
    return misused(app, text("--bind needs a core for each rank: ", job.started_ranks(), " ranks, ",
                             allowed_core_count(), " cores; remove --bind"));
  return std::nullopt;
}

ElasticJob::OnFailure parse_on_failure(const std::string& word) {
  if (word.empty() || word == "place") return ElasticJob::OnFailure::place;
  if (word == "host") return ElasticJob::OnFailure::host;
  if (word == "job") return ElasticJob::OnFailure::job;
  throw Error(ErrorCode::configuration, text("--on-failure must be place, host or job, not '", word, "'"));
}

std::optional<ElasticJob> parse_elastic(const Given& given) {
  if (given.min_np.empty() && given.max_np.empty()) {
    if (given.max_restarts.empty() && given.on_failure.empty() && given.elastic_timeout.empty() &&
        given.discovery.empty())
      return std::nullopt;
    throw Error(ErrorCode::configuration,
                "--max-restarts, --on-failure, --host-discovery-script and --elastic-timeout are for elastic jobs: add "
                "--min-np N; or write "
                "--restarts N to start all ranks again after a failure");
  }
  ElasticJob elastic;
  if (!given.min_np.empty()) elastic.min = int(parse_number("--min-np", given.min_np, 1, kMaxProcesses));
  if (!given.max_np.empty()) elastic.max = int(parse_number("--max-np", given.max_np, 1, kMaxProcesses));
  elastic.max_restarts = given.max_restarts.empty()
                             ? kUsualRestarts
                             : int(parse_number("--max-restarts", given.max_restarts, 0, kMaxRestarts));
  elastic.on_failure = parse_on_failure(given.on_failure);
  if (!given.elastic_timeout.empty())
    elastic.patience =
        std::chrono::seconds(parse_number("--elastic-timeout", given.elastic_timeout, 1, long(kMaxTimeout)));
  return elastic;
}

void find_hosts(Given& given, Job& job) {
  if (!given.hosts.host_list.empty() || !given.hosts.host_file.empty())
    throw Error(ErrorCode::configuration, "--host-discovery-script lists the hosts: leave out -H and --hostfile");
  if (!job.elastic || given.hosts.ranks.empty())
    throw Error(ErrorCode::configuration, "--host-discovery-script is for elastic jobs: add -n N and --min-np N");
  job.discovery = given.discovery;
  const int first = int(parse_number("-n", given.hosts.ranks, 1, kMaxProcesses));
  given.hosts.discovered = discover_hosts(job.discovery, first, Settings::from_environment().start_timeout);
}

std::chrono::milliseconds in_milliseconds(double seconds) {
  return std::chrono::milliseconds(std::llround(seconds * 1000));
}

}  // namespace

std::optional<int> parse_run(Words words, Job& job) {
  CLI::App app(
      "Starts N copies of a program as the ranks of one job: on this host, on hosts that are listed, or on those "
      "of a scheduler's allocation.",
      "anello run");
  Given given{.grace_seconds = double(job.grace.count()) / 1000};
  add_options(app, job, given);
  job.command = take_program(app, words);
  if (const auto exit_code = parse(app, words)) return exit_code;
  job.elastic = parse_elastic(given);
  if (!given.discovery.empty()) find_hosts(given, job);
  select_hosts(
      given.hosts, [] { return find_allocation(environment, read_text); }, job);
  job.max_restarts = int(parse_number("--restarts", given.restarts, 0, kMaxRestarts));
  if (const auto exit_code = check(app, job, given)) return exit_code;
  job.grace = in_milliseconds(given.grace_seconds);
  if (given.timeout_seconds > 0) job.timeout = in_milliseconds(given.timeout_seconds);
  job.rank_labels = !given.no_prefix;
  job.columns = columns_for_rank_0(job);
  return std::nullopt;
}

}  // namespace anello::launch
