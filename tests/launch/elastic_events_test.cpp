// An elastic job whose processes are killed, stopped, added and asked to leave at random. Its result must be that of an
// undisturbed training, and nothing may be left.
#include "tests/launch/disturbed_job.hpp"
#include "tests/rendezvous/trainee.hpp"

namespace anello::launch {
namespace {

constexpr int kTrainingSteps = 3000, kDisturbedWorlds = 12, kMaxEvents = 200;

std::string what_is_wrong(DisturbedJob& job) {
  if (!job.begins()) return "it does not begin";
  job.disturb([&] { return job.events() >= kMaxEvents; });
  if (!job.ends_well()) return text("it ended with ", job.launcher().wait());
  const std::string result =
      text("weights ", std::uint64_t(trainee::expected(100, kTrainingSteps)), " at ", kTrainingSteps);
  std::size_t results = 0;
  for (const std::string& line : testing::lines(job.launcher().out())) {
    if (!contains(line, "] weights ")) continue;
    if (!line.ends_with("] " + result)) return "another result: " + line;
    results++;
  }
  if (results == 0) return "no process has a result";
  return job.launcher().none_left() ? "" : "processes are left";
}

TEST(ElasticEvents, ChangeNothing) {
  with_seeds(2, [](unsigned seed) {
    DisturbedJob job({.seed = seed}, {TRAINEE, std::to_string(kTrainingSteps), "10", std::to_string(kDisturbedWorlds)});
    const std::string wrong = what_is_wrong(job);
    return wrong.empty() ? "" : wrong + "; " + job.story();
  });
}

}  // namespace
}  // namespace anello::launch
