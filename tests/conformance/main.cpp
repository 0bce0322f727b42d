// anello-conformance runs every case of the product in worlds of threads over real links. Ends with 1 if any result is
// wrong.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <iostream>
#include <map>
#include <mutex>

#include "ring/base/text.hpp"
#include "tests/conformance/cases.hpp"
#include "tests/support/started.hpp"
#include "tests/support/worlds.hpp"

namespace anello::conformance {
namespace {

constexpr std::string_view kUsage =
    "usage: anello-conformance [--pairs | --triples | --all] [WORLD...]\n"
    "  --pairs    a few cases: every two arguments that can meet do so in one of them\n"
    "  --triples  more cases: every three arguments do\n"
    "  --all      all cases (the default)\n"
    "  WORLD      numbers of ranks, 1 to 16; 1 to 8 unless given\n";
// How many arguments meet.
const std::map<std::string, std::size_t> kMeetings{{"--all", 0}, {"--pairs", 2}, {"--triples", 3}};

Settings settings_for(Way way) {
  Settings settings = Settings::from_environment();
  settings.transport = way == Way::tcp || way == Way::tcp_in_pieces ? "tcp" : "shm";
  if (way == Way::tcp_in_pieces || way == Way::memory_in_pieces) {
    settings.socket_buffer_bytes = 4096;
    settings.shm_bytes = 1024;
    settings.slab_bytes = 3000;
  }
  return settings;
}

struct Score {
  std::size_t cases = 0, wrong = 0;
  double seconds = 0;  // of rank 0
};
using Scores = std::map<Kind, Score>;

std::string carry_out(World& world, const Case& each) {
  if (!each.started) return anello::carry_out(world, each.exercise);
  Started started(world, each.exercise);
  started.work.wait();
  return started.part->wrong();
}

// All ranks run the same cases; the first wrong results are printed.
void run(const std::vector<Case>& cases, Scores& scores) {
  std::mutex mutex;
  const auto program = [&](World& world) {
    for (const Case& each : cases) {
      const auto began = std::chrono::steady_clock::now();
      const std::string wrong = carry_out(world, each);
      const std::lock_guard lock(mutex);
      Score& score = scores[each.exercise.kind];
      if (world.rank() == 0) {
        score.cases++;
        score.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
      }
      if (!wrong.empty() && score.wrong++ < 10) std::cerr << text(wrong, each.started ? ", started\n" : "\n");
    }
  };
  run_world(cases.front().exercise.world, program, settings_for(cases.front().way));
}

std::map<std::pair<int, Way>, std::vector<Case>> by_world(const std::vector<Case>& cases) {
  std::map<std::pair<int, Way>, std::vector<Case>> worlds;
  for (const Case& each : cases) worlds[{each.exercise.world, each.way}].push_back(each);
  return worlds;
}

int report(const Scores& scores) {
  Score all;
  for (const auto& [kind, score] : scores) {
    std::cout << text(name(kind), ": ", score.cases, " cases in ", int(score.seconds), " s, ", score.wrong, " wrong\n");
    all.cases += score.cases;
    all.wrong += score.wrong;
    all.seconds += score.seconds;
  }
  std::cout << text("all: ", all.cases, " cases in ", int(all.seconds), " s, ", all.wrong, " wrong\n");
  return all.wrong > 0 || all.cases == 0;
}

int main(const std::vector<std::string>& arguments) {
  std::size_t together = 0;
  std::vector<int> worlds;
  for (const std::string& argument : arguments) {
    constexpr long kMaxRanks = 16;
    if (const auto at = kMeetings.find(argument); at != kMeetings.end())
      together = at->second;
    else if (argument == "--help" || argument.starts_with("-"))
      return std::cerr << kUsage, argument == "--help" ? 0 : 2;
    else
      worlds.push_back(int(parse_number("WORLD", argument, 1, kMaxRanks)));
  }
  if (worlds.empty()) worlds = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<Case> cases = together > 0 ? covering(product(worlds), together) : product(worlds);
  std::cout << text(cases.size(), " cases\n");
  Scores scores;
  for (const auto& [world, its] : by_world(cases)) run(its, scores);
  return report(scores);
}

}  // namespace
}  // namespace anello::conformance

int main(int argc, char** argv) {
  try {
    return anello::conformance::main({argv + 1, argv + argc});
  } catch (const std::exception& e) {
    std::cerr << anello::text("anello-conformance: ", e.what(), "\n");
    return 1;
  }
}
