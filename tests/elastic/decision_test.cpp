// Tests which ranks send the state, and which ranks receive it.
#include "ring/elastic/decision.hpp"

#include <gmock/gmock.h>

#include <anello/error.hpp>
#include <optional>

namespace anello::elastic {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Ranks = std::vector<int>;

constexpr Hash kManifest{1, 2}, kOther{1, 3};

Report newcomer() {
  return {.holds = false, .clean = true, .revision = 0, .manifest = kManifest};
}
Report half_written_newcomer() {
  return {.holds = false, .clean = false, .revision = 0, .manifest = kManifest};
}
Report holder(std::uint64_t revision) {
  return {.holds = true, .clean = true, .revision = revision, .manifest = kManifest};
}
Report unclean(std::uint64_t revision) {
  return {.holds = true, .clean = false, .revision = revision, .manifest = kManifest};
}
Report with_other_entries(Report report) {
  report.manifest = kOther;
  return report;
}

std::optional<Error> refusal(const std::vector<Report>& reports, bool begun) {
  try {
    decide(reports, begun);
  } catch (const Error& error) {
    return error;
  }
  return {};
}

struct Case {
  const char* name;
  std::vector<Report> reports;
  std::uint64_t revision;
  Ranks sources, receivers;
};

void PrintTo(const Case& one, std::ostream* out) {
  *out << one.name;
}

class Decisions : public testing::TestWithParam<Case> {};

TEST_P(Decisions, AreMadeByTheNewestCompleteState) {
  const Case& one = GetParam();
  for (const bool begun : {false, true}) {  // `begun` makes no difference while a rank has the state
    const Decision decision = decide(one.reports, begun);
    EXPECT_EQ(decision.revision, one.revision);
    EXPECT_EQ(decision.sources, one.sources);
    EXPECT_EQ(decision.receivers, one.receivers);
    EXPECT_FALSE(decision.fresh);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, Decisions,
    testing::Values(Case{"AllHaveIt", {holder(5), holder(5), holder(5)}, 5, {0, 1, 2}, {}},
                    Case{"Alone", {holder(0)}, 0, {0}, {}},
                    Case{"ANewcomer", {holder(5), holder(5), newcomer()}, 5, {0, 1}, {2}},
                    Case{"ANewcomerIsRank0", {newcomer(), holder(5), holder(5)}, 5, {1, 2}, {0}},
                    Case{"OneHolderInTheMiddle", {newcomer(), holder(3), newcomer()}, 3, {1}, {0, 2}},
                    Case{"ALaggard", {holder(4), holder(5), holder(5)}, 5, {1, 2}, {0}},
                    Case{"ALaggardAndANewcomer", {holder(4), newcomer(), holder(5)}, 5, {2}, {0, 1}},
                    Case{"UncleanAtTheSameRevision", {unclean(5), holder(5), newcomer()}, 5, {1}, {0, 2}},
                    Case{"UncleanAtTheHighestRevision", {unclean(6), holder(5)}, 5, {1}, {0}},
                    Case{"RevisionsWithoutTheState", {{false, true, 9, kManifest}, holder(5)}, 5, {1}, {0}},
                    Case{"HalfWrittenNewcomer", {half_written_newcomer(), holder(0)}, 0, {1}, {0}},
                    Case{"LargeRevisions", {holder(1ull << 40), holder((1ull << 40) + 1)}, (1ull << 40) + 1, {1}, {0}}),
    testing::PrintToStringParamName());

TEST(Decision, AJobBeginsWithTheValuesOfRank0) {
  const Decision decision = decide({newcomer(), newcomer(), newcomer()}, false);
  EXPECT_TRUE(decision.fresh);
  EXPECT_EQ(decision.revision, 0u);
  EXPECT_THAT(decision.sources, ElementsAre(0));
  EXPECT_THAT(decision.receivers, ElementsAre(1, 2));
}

TEST(Decision, AJobBeginsAloneToo) {
  const Decision decision = decide({newcomer()}, false);
  EXPECT_TRUE(decision.fresh);
  EXPECT_THAT(decision.sources, ElementsAre(0));
  EXPECT_THAT(decision.receivers, IsEmpty());
}

TEST(Decision, HalfWrittenInitialValuesOfAnotherRankDoNotMatter) {
  const Decision decision = decide({newcomer(), half_written_newcomer(), newcomer()}, false);
  EXPECT_TRUE(decision.fresh);
  EXPECT_THAT(decision.sources, ElementsAre(0));
  EXPECT_THAT(decision.receivers, ElementsAre(1, 2));
}

// Rank 2 may be the replacement of the rank 0 that had loaded a checkpoint, and may have only initial values.
TEST(Decision, NoRankTakesThePlaceOfARank0WithoutCompleteValues) {
  const auto error = refusal({half_written_newcomer(), half_written_newcomer(), newcomer()}, false);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::rendezvous);
  EXPECT_THAT(error->message(), HasSubstr("ranks 0, 1 have only a part of it"));
}

TEST(Decision, NoCleanRankAtTheBeginning) {
  const auto error = refusal({half_written_newcomer(), half_written_newcomer()}, false);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::rendezvous);
  EXPECT_THAT(error->message(), HasSubstr("ranks 0, 1 have only a part of it"));
}

TEST(Decision, NewcomersCannotGoOnWithAJobWhoseHoldersHaveEnded) {
  const auto error = refusal({newcomer(), newcomer()}, true);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::rendezvous);
  EXPECT_EQ(error->message(),
            "all ranks that had the complete state have ended; start the job again from a checkpoint");
}

TEST(Decision, UncleanRanksCannotGoOnAlone) {
  const auto error = refusal({newcomer(), unclean(7)}, true);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::rendezvous);
  EXPECT_EQ(error->message(),
            "all ranks that had the complete state have ended; rank 1 has only a part of it; start the job again from "
            "a checkpoint");
}

TEST(Decision, EntriesMustBeEqual) {
  const auto error = refusal({holder(5), with_other_entries(newcomer()), holder(5)}, true);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::mismatch);
  EXPECT_EQ(error->rank(), 1);
  EXPECT_EQ(error->message(), "rank 1 has other entries in the state than ranks 0, 2");
}

TEST(Decision, EntriesMustBeEqualAtTheBeginning) {
  const auto error = refusal({newcomer(), with_other_entries(newcomer())}, false);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::mismatch);
  EXPECT_EQ(error->rank(), -1) << "either of two may be wrong";
  EXPECT_EQ(error->message(), "rank 1 has other entries in the state than rank 0");
}

TEST(Decision, ALostStateIsReportedBeforeAWrongEntry) {
  const auto error = refusal({newcomer(), with_other_entries(newcomer())}, true);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::rendezvous);
}

// The newcomers are at fault even if most ranks are such newcomers, because the other ranks can go on without them.
TEST(Decision, ANewcomerThatDiffersFromTheSourceIsAtFault) {
  const Report odd = with_other_entries(newcomer());
  for (const std::vector<Report>& reports : {std::vector<Report>{holder(5), odd}, {holder(5), odd, odd}}) {
    const auto error = refusal(reports, true);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::mismatch);
    EXPECT_EQ(error->rank(), 1);
    EXPECT_THAT(error->message(), HasSubstr(" other entries in the state than rank 0"));
  }
}

}  // namespace
}  // namespace anello::elastic
