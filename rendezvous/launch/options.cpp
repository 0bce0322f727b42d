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

// Leaves the last column free, where terminals differ in what they do.
int columns_for_rank_0() {
  const TerminalStyle look = look_of(STDOUT_FILENO);
  return look.terminal ? std::max(look.columns - int(rank_label(0).size()) - 1, 1) : 0;
}

}  // namespace

std::optional<int> parse_run(Words words, Job& job) {
  CLI::App app("Starts a program on N ranks of this host and brings them together.", "anello run");
  std::string ranks;
  double grace_seconds = double(job.grace.count()) / 1000;
  app.add_option("-n,--np", ranks, "number of ranks (-np too)")->type_name("N");
  app.add_option("--output", job.output_folder, "also write what rank R prints to DIR/rank.R.out and DIR/rank.R.err")
      ->type_name("DIR");
  app.add_option("--grace", grace_seconds, "time between the signal that asks ranks to end and the one that ends them")
      ->type_name("SECONDS")
      ->capture_default_str();
  app.add_flag("--bind", job.bind, "each rank runs on cores of its own; two jobs at a time would share them");
  app.add_option("program", job.command, "what each rank runs, and its arguments, best behind --")->type_name("");
  app.footer(
      "Lines are printed behind [rank]. Standard input goes to rank 0. The first rank to fail ends all, and gives the\n"
      "exit code (128+n for signal n; 127: program not found, 126: not executable, 2: wrong usage).\n"
      "OMP_NUM_THREADS and OPENBLAS_NUM_THREADS are 1 unless you set them. Of open files ranks inherit standard "
      "input,\n"
      "output and error only. Example: anello run -n 4 -- ./train --epochs 3\n\n"
      "Environment variables (ranks find the first ones set):\n" +
      settings_table(false));
  job.command = take_program(app, words);
  if (const auto exit_code = parse(app, words)) return exit_code;
  if (ranks.empty()) return misused(app, "how many ranks? give -n N");
  job.size = int(parse_number("-n", ranks, 1, kMaxRanks));
  if (!(grace_seconds >= 0 && grace_seconds <= kMaxGrace))
    return misused(app, text("--grace=", grace_seconds, " is not a number of seconds from 0 to ", kMaxGrace));
  if (job.command.empty() || job.command[0].empty())
    return misused(app, "no program; write it behind the options, as in `anello run -n 4 -- ./train`");
  if (job.bind && job.size > cores_to_share())
    return misused(app, text("--bind: ", job.size, " ranks on ", cores_to_share(), " cores; leave it out"));
  job.grace = std::chrono::milliseconds(std::lround(grace_seconds * 1000));
  job.columns = columns_for_rank_0();
  return std::nullopt;
}

}  // namespace anello::launch
