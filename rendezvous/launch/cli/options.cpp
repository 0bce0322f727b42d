#include "rendezvous/launch/cli/options.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "rendezvous/launch/base/timestamp.hpp"
#include "rendezvous/launch/cli/elastic_options.hpp"
#include "rendezvous/launch/job/host_selection.hpp"
#include "rendezvous/launch/output/mixer.hpp"
#include "rendezvous/launch/output/sink.hpp"
#include "ring/base/config.hpp"
#include "ring/base/text.hpp"

namespace anello::launch {
namespace {

constexpr double kMaxGrace = 86400, kMaxTimeout = 366 * 86400.0;
constexpr long kMaxRestarts = 1000000;

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
  ElasticOptions elastic;
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
  add_elastic_options(app, given.elastic);
  add_output_options(app, job, given);
  app.add_flag("--bind", job.bind,
               "run each rank on its own cores, or neighbours on one core (two such jobs would use the same cores)");
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
  return std::nullopt;
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
  job.elastic = parse_elastic(given.elastic, given.hosts);
  find_hosts(given.elastic, given.hosts, job);
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
