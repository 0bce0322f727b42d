// Ranks that say nothing, and ranks that are slow.
#include <gmock/gmock.h>

#include "tests/support/agreement_worlds.hpp"

namespace anello {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;

TEST(FailureAgreement, who_is_silent_is_found_and_named) {
  in_many_worlds(3, [](Assembly& assembly) {
    const int silent = any_rank(assembly);
    assembly.stop(silent);
    const int finder = (silent + 1) % assembly.size();
    assembly[finder].silent(silent, milliseconds(3000), assembly.now());
    assembly.deliver_all();
    const Verdict verdict = common_verdict(assembly);
    EXPECT_EQ(verdict.code, ErrorCode::rank_silent);
    EXPECT_EQ(verdict.culprit, silent);
    EXPECT_THAT(verdict.message, AllOf(HasSubstr(text("rank ", silent, " on host", silent, " is silent")),
                                       HasSubstr(text("and rank ", finder, " is cut; nothing was heard for 3000 ms"))));
  });
}

TEST(FailureAgreement, who_has_left_may_be_silent) {
  in_many_worlds(2, [](Assembly& assembly) {
    assembly[1].leave(0, 0);
    assembly.deliver_all();
    assembly[0].silent(1, milliseconds(3000), assembly.now());
    assembly.deliver_all();
    expect_no_verdict(assembly);
  });
}

// All its neighbours complain.
TEST(FailureAgreement, a_slow_rank_is_reported_once_in_a_while) {
  Assembly assembly(4, 1);
  const Straggler lag{.rank = 3, .own = milliseconds(900), .theirs = milliseconds(20), .period = milliseconds(1000)};
  const auto complain = [&] {
    for (const int rank : {0, 1, 2}) assembly[rank].slow(lag, assembly.now());
    assembly.deliver_all();
  };
  complain();
  EXPECT_THAT(
      assembly[0].take_reports(),
      testing::ElementsAre("rank 3 on host3 keeps others waiting: of the last 1000 ms rank 0 on host0 spent 900 "
                           "asleep in operations, rank 3 only 20"));
  assembly.advance(StragglerReports::kQuiet - milliseconds(1));
  complain();
  EXPECT_THAT(assembly[0].take_reports(), testing::IsEmpty());
  assembly.advance(milliseconds(1));
  complain();
  EXPECT_EQ(assembly[0].take_reports().size(), 1u);
  expect_no_verdict(assembly);
}

}  // namespace
}  // namespace anello
