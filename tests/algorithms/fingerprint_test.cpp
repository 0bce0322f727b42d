#include "ring/algorithms/fingerprint.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "ring/algorithms/selection.hpp"

namespace anello::algorithms {
namespace {

TEST(Fingerprint, IsTheSameAtEachCall) {
  EXPECT_EQ(build_fingerprint(), build_fingerprint());
  EXPECT_EQ(fingerprint_of_choices(), fingerprint_of_choices());
}

TEST(Fingerprint, DiffersBetweenAlgorithmsAndShapes) {
  std::set<std::uint64_t> seen;
  std::size_t shapes = 0;
  for (const Algorithm algorithm : all_algorithms())
    for (const std::uint64_t count : {48, 49}) {
      constexpr int kWorld = 24;  // with fewer ranks, a grid may be one line, which has the plan of two_shot
      std::uint64_t all = 0;
      for (int rank = 0; rank < kWorld; rank++)
        all = fingerprint_of(plan_allreduce(algorithm, {.rank = rank, .world = kWorld, .count = count}), all);
      seen.insert(all);
      shapes++;
    }
  EXPECT_EQ(seen.size(), shapes);
}

// Tests every difference of a plan that another rank can notice.
TEST(Fingerprint, DiffersForEachChangeOfAPlan) {
  const Plan plan = plan_allreduce(Algorithm::ring, {.rank = 1, .world = 3, .count = 9});
  const auto reduces = [](Step& step) { return step.act == Act::reduce; };
  const std::vector<std::function<void(Plan&)>> changes = {
      [](Plan& p) { p.steps[0].range.begin++; },
      [](Plan& p) { p.steps[0].range.count--; },
      [](Plan& p) { p.steps[0].place.at++; },
      [](Plan& p) { p.steps[0].place.space = Space::scratch; },
      [](Plan& p) { p.streams[0].peer = 2 - p.streams[0].peer; },
      [](Plan& p) { std::swap(p.steps[0], p.steps[1]); },
      [](Plan& p) { p.input_elems++; },
      [&](Plan& p) { std::ranges::find_if(p.steps, reduces)->incoming_left ^= true; },
      [&](Plan& p) { std::ranges::find_if(p.steps, reduces)->makes_result ^= true; },
      [&](Plan& p) { std::ranges::find_if(p.steps, reduces)->act = Act::copy; },
      [](Plan& p) { p.sources.front().at++; },
  };
  for (std::size_t k = 0; k < changes.size(); k++) {
    Plan changed = plan;
    changes[k](changed);
    EXPECT_NE(fingerprint_of(changed), fingerprint_of(plan)) << "change " << k;
  }
}

}  // namespace
}  // namespace anello::algorithms
