#include "rendezvous/launch/options.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "rendezvous/launch/binding.hpp"
#include "rendezvous/launch/mixer.hpp"
#include "rendezvous/launch/sink.hpp"
#include "ring/base/config.hpp"
#include "ring/base/text.hpp"

namespace anello::launch {
namespace {

constexpr long kMaxRanks = 65536;
constexpr double kMaxGrace = 86400;

// Leaves the last column free, because terminals differ in when they wrap a full line.
int columns_for_rank_0() {
  const TerminalStyle style = terminal_style(STDOUT_FILENO);
  return style.terminal ? std::max(style.columns - int(rank_label(0).size()) - 1, 1) : 0;
}

}  // namespace

std::optional<int> parse_run(Words words, Job& job) {
  CLI::App app("Starts N copies of a program on this host, as the ranks of one job.", "anello run");
  std::string ranks;
  double grace_seconds = double(job.grace.count()) / 1000;
  app.add_option("-n,--np", ranks, "number of ranks (also -np)")->type_name("N");
  app.add_option("--output", job.output_folder, "also write the output of rank R to DIR/rank.R.out and DIR/rank.R.err")
      ->type_name("DIR");
  app.add_option("--grace", grace_seconds, "how long ranks may take to end before they are killed")
      ->type_name("SECONDS")
      ->capture_default_str();
  app.add_flag("--bind", job.bind, "run each rank on its own cores (two such jobs would use the same cores)");
  app.add_option("program", job.command, "the program that each rank runs, and its arguments; write -- before it")
      ->type_name("");
  app.footer(
      "Example: anello run -n 4 -- ./train --epochs 3\n\n"
      "Each line of output starts with [rank]. Standard input goes to rank 0.\n"
      "When a rank fails, all other ranks are ended. The exit code is that of the first rank that failed: 128+n if\n"
      "signal n killed it, 127 if the program was not found, 126 if it is not executable. 2 is wrong usage.\n"
      "OMP_NUM_THREADS and OPENBLAS_NUM_THREADS are 1 unless you set them.\n"
      "Ranks inherit standard input, output and error, and no other open file.\n\n"
      "Environment variables (`anello run` sets ANELLO_RANK to ANELLO_SECRET_FD, ANELLO_REPORT_FD and ANELLO_TTY for "
      "the ranks):\n" +
      settings_table(false));
  job.command = take_program(app, words);
  if (const auto exit_code = parse(app, words)) return exit_code;
  if (ranks.empty()) return misused(app, "the number of ranks is missing; add -n N");
  job.size = int(parse_number("-n", ranks, 1, kMaxRanks));
  if (!(grace_seconds >= 0 && grace_seconds <= kMaxGrace))
    return misused(app, text("--grace must be 0 to ", kMaxGrace, " seconds, not ", grace_seconds));
  if (job.command.empty() || job.command[0].empty())
    return misused(app, "no program is given; write it after the options: anello run -n 4 -- ./train");
  if (job.bind && job.size > allowed_core_count())
    return misused(app, text("--bind needs a core for each rank: ", job.size, " ranks, ", allowed_core_count(),
                             " cores; remove --bind"));
  job.grace = std::chrono::milliseconds(std::lround(grace_seconds * 1000));
  job.columns = columns_for_rank_0();
  return std::nullopt;
}

}  // namespace anello::launch
