// Simulated worlds with a fault. The result is an error that names the right ranks, never a wrong result, and never a
// hang.
#include <gmock/gmock.h>

#include "ring/base/text.hpp"
#include "tests/support/scenario.hpp"

namespace anello::run {
namespace {

// The place of the fault may be after the last byte; then nothing goes wrong.
void expect_named(const Simulation::Outcome& outcome, const Fault& fault) {
  if (outcome.all_done) return;
  if (fault.kind == Fault::Kind::stall) {
    EXPECT_TRUE(outcome.stuck);
    return;
  }
  ASSERT_TRUE(outcome.error) << "stuck";
  EXPECT_THAT(outcome.error->code(), testing::AnyOf(ErrorCode::network, ErrorCode::mismatch, ErrorCode::protocol));
  EXPECT_THAT(outcome.noticed_by, testing::AnyOf(fault.from, fault.to));
  EXPECT_EQ(outcome.error->rank(), fault.from + fault.to - outcome.noticed_by);
}

struct Struck {
  int unharmed = 0, harmed = 0;
};

void strike(Fault::Kind kind, std::uint64_t seed, Struck& struck) {
  Random random(seed * 8 + std::uint64_t(kind));
  Scenario scenario(int(random.from(2, 9)), random);
  for (std::uint64_t k = random.from(1, 4); k > 0; k--) scenario.add_any(random);
  Fault fault{kind, int(random.below(std::uint64_t(scenario.world))), 0, 0};
  fault.to = int((std::uint64_t(fault.from) + random.from(1, std::uint64_t(scenario.world) - 1)) %
                 std::uint64_t(scenario.world));
  // A flipped bit of the data cannot be noticed: only the signature is guarded.
  fault.after_bytes = random.below(kind == Fault::Kind::garbage || random.percent(30) ? kSignatureBytes : 2000);
  SCOPED_TRACE(replay(seed) + "\n" + scenario.description());
  Simulation simulation(scenario.program, scenario.weather, fault, seed);
  const Simulation::Outcome outcome = simulation.run();
  expect_named(outcome, fault);
  EXPECT_EQ(scenario.wrong(outcome), "");
  (outcome.all_done ? struck.unharmed : struck.harmed)++;
}

class EveryFault : public testing::TestWithParam<Fault::Kind> {};
INSTANTIATE_TEST_SUITE_P(All, EveryFault,
                         testing::Values(Fault::Kind::drop, Fault::Kind::close, Fault::Kind::garbage,
                                         Fault::Kind::stall));

TEST_P(EveryFault, EndsInAnErrorThatNamesTheLinkAndNeverInAWrongResult) {
  Struck struck;
  for (const std::uint64_t seed : seeds(160)) {
    strike(GetParam(), seed, struck);
    if (HasFailure()) return;
  }
  EXPECT_TRUE(struck.harmed > 0 || struck.unharmed < 10) << "no fault ever struck";
}

// One of several ranks makes a different call. Barriers follow, as in a program that goes on.
void call_differently(std::uint64_t seed, void (*change)(Signature&)) {
  Random random(seed);
  Scenario scenario(int(random.from(2, 9)), random);
  const Exercise exercise = scenario.draw_exercise(Kind::allreduce, random);
  scenario.add(exercise, random.one_of(all_algorithms()), draw_slab(exercise.count, random), random);
  const auto odd = random.below(std::uint64_t(scenario.world));
  change(scenario.program[odd][0].signature);
  SCOPED_TRACE(replay(seed) + "\n" + scenario.description());
  Simulation simulation(scenario.program, scenario.weather, {}, seed);
  const Simulation::Outcome outcome = simulation.run();
  ASSERT_TRUE(outcome.error) << (outcome.stuck ? "stuck" : "done");
  EXPECT_EQ(outcome.error->code(), ErrorCode::mismatch);
  EXPECT_THAT(outcome.error->message(), testing::HasSubstr(text("rank ", odd, " calls")));
  EXPECT_THAT(outcome.error->message(), testing::HasSubstr(text("rank ", outcome.noticed_by, " calls")));
}

TEST(Simulation, ASignatureOfOneRankThatDiffersIsFound) {
  for (const std::uint64_t seed : seeds(60)) {
    call_differently(seed, [](Signature& s) { s.dtype = DType::i8; });
    call_differently(seed, [](Signature& s) { s.op = s.op == Op::average ? Op::sum : Op::average; });
    call_differently(seed, [](Signature& s) { s.count++; });
    call_differently(seed, [](Signature& s) { s.kind = Kind::reduce_scatter; });
    call_differently(seed, [](Signature& s) { s.sequence++; });
    call_differently(seed, [](Signature& s) { s.fingerprint++; });
    call_differently(seed, [](Signature& s) { s.slab_elems += 1000; });
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace anello::run
