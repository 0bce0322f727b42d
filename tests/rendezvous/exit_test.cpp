// Processes that call exit() while their World is alive, and the reason that the other rank receives.
#include <gmock/gmock.h>

#include <filesystem>

#include "rendezvous/server/server.hpp"
#include "ring/base/text.hpp"
#include "tests/support/process.hpp"
#include "tests/support/scratch.hpp"

namespace anello {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Exits {
  int code;                // exit code of the rank that ends
  std::string out, other;  // `out`: output of the rank that ends; `other`: of the other rank
};

Exits exits_of(const std::string& how, const std::string& timeline = "none") {
  RendezvousServer server({});
  const auto surroundings = [&](int rank) {
    return testing::Surroundings{.environment = {"ANELLO_SIZE=2", text("ANELLO_RANK=", rank), "ANELLO_FLIGHT_DIR=none",
                                                 timeline == "none" ? "" : "ANELLO_TIMELINE=" + timeline,
                                                 text("ANELLO_RENDEZVOUS=127.0.0.1:", server.port()),
                                                 "ASAN_OPTIONS=detect_leaks=0"}};  // a living world counts as a leak
  };
  testing::Process leaver({LEAVER, how}, surroundings(1));
  const testing::Outcome other = testing::run({LEAVER, how}, surroundings(0));
  const int code = leaver.wait();
  const std::string said = other.err + leaver.err();
  if (timeline == "none")
    EXPECT_EQ(said, "") << how;
  else
    EXPECT_THAT(said, AllOf(HasSubstr(timeline + ".rank0'"), HasSubstr(timeline + ".rank1'")));
  return {code, leaver.out(), other.out};
}

// An exit with status 0 is no death, whether the world has no owner, or a static object or C owns it.
TEST(Exit, WithStatus0IsNoDeath) {
  for (const char* how : {"exit 0", "exit 0 without memory", "owned", "static", "C", "busy"}) {
    const Exits ends = exits_of(how);
    EXPECT_EQ(ends.code, 0) << how;
    EXPECT_THAT(ends.other, AllOf(StartsWith("rank_left, rank 1: "), HasSubstr("rank 1 on "), HasSubstr(" left the ")))
        << how;
  }
}

TEST(Exit, WithAnotherStatusAbortsTheWorld) {
  for (const char* how : {"exit 3", "owned 3"}) {
    const Exits ends = exits_of(how);
    EXPECT_EQ(ends.code, 3);
    EXPECT_THAT(ends.other,
                AllOf(StartsWith("aborted, rank 1: "), HasSubstr(" ended the world: its program ended with status 3")))
        << how;
  }
}

TEST(Exit, WithAnotherStatusAbortsTheWorldWithoutMemoryToo) {
  const Exits ends = exits_of("exit 3 without memory");
  EXPECT_EQ(ends.code, 3);
  EXPECT_THAT(ends.other, AllOf(StartsWith("aborted, rank 1: "), HasSubstr(" cannot go on: out of memory")));
}

TEST(Exit, ThatCallsNoHandlersIsADeath) {
  for (const char* how : {"_exit", "quick_exit"})
    EXPECT_THAT(exits_of(how).other, AllOf(StartsWith("rank_dead, rank 1: "), HasSubstr("died"))) << how;
}

TEST(Exit, OfAChildThatForkMadeDoesNotConcernTheRanks) {
  EXPECT_THAT(exits_of("child").other, HasSubstr("its program ended with status 5"));
}

// The program exits without stopping the timeline or destroying the worlds.
TEST(Exit, LeavesTheTimelineOfEachRank) {
  const Scratch scratch;
  const std::filesystem::path path = scratch.path() / "timeline";
  EXPECT_EQ(exits_of("exit 0", path).code, 0);
  for (const int rank : {0, 1}) {
    std::error_code missing;
    EXPECT_GT(std::filesystem::file_size(text(path.string(), ".rank", rank), missing), 0u) << missing.message();
    EXPECT_FALSE(missing) << rank;
  }
}

TEST(Exit, LetsStaticObjectsFinishTheWorld) {
  const Exits ends = exits_of("finish");
  EXPECT_EQ(ends.code, 0);
  EXPECT_EQ(ends.other, "");
}

}  // namespace
}  // namespace anello
