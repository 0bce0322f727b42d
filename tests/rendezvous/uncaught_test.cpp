// Exceptions that end a rank, in real processes: how the process ends, and the error that the other rank receives.
#include <gmock/gmock.h>

#include <anello/anello.hpp>

#include "rendezvous/server/server.hpp"
#include "ring/base/text.hpp"
#include "tests/support/process.hpp"

namespace anello {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Ends {
  testing::Outcome thrower, other;
};

Ends ends_of(const std::string& what) {
  RendezvousServer server({});
  const auto surroundings = [&](int rank) {
    return testing::Surroundings{.environment = {"ANELLO_SIZE=2", text("ANELLO_RANK=", rank), "ANELLO_FLIGHT_DIR=none",
                                                 text("ANELLO_RENDEZVOUS=127.0.0.1:", server.port())}};
  };
  testing::Process thrower({THROWER, what}, surroundings(1));
  const testing::Outcome other = testing::run({THROWER, what}, surroundings(0));
  const int code = thrower.wait();
  return {{code, thrower.out(), thrower.err()}, other};
}

constexpr int kAborted = 128 + SIGABRT;
constexpr const char* kReason = "rank 1 on ";

TEST(Uncaught, AnErrorIsOneLineAndStatus1) {
  const Ends ends = ends_of("error");
  EXPECT_EQ(ends.thrower.code, 1);
  EXPECT_EQ(ends.thrower.err, "anello: rank 1: error: cannot read part-0007.h5\n");
  EXPECT_EQ(ends.thrower.out, "thrown\n");
  EXPECT_THAT(ends.other.out, HasSubstr(kReason));
  EXPECT_THAT(ends.other.out, HasSubstr("ended the world: cannot read part-0007.h5"));
}

TEST(Uncaught, AnotherExceptionReachesAllRanksAndThenTheDefaultHandler) {
  for (const char* what : {"other", "thread"}) {
    const Ends ends = ends_of(what);
    EXPECT_EQ(ends.thrower.code, kAborted);
    EXPECT_THAT(ends.thrower.err, HasSubstr("terminate called after throwing an instance of 'std::runtime_error'"));
    EXPECT_THAT(ends.other.out, HasSubstr("ended the world: uncaught exception: cannot read part-0007.h5"));
  }
  EXPECT_THAT(ends_of("number").other.out, HasSubstr("ended the world: uncaught exception of unknown type"));
  EXPECT_THAT(ends_of("nothing thrown").other.out, HasSubstr("ended the world: std::terminate was called"));
}

TEST(Uncaught, TheProgramsOwnHandlerIsCalled) {
  const Ends before = ends_of("handler");
  EXPECT_EQ(before.thrower.code, 7);
  EXPECT_THAT(before.thrower.out, HasSubstr("the program's own handler"));
  EXPECT_THAT(before.other.out, HasSubstr("ended the world: cannot read part-0007.h5"));
  const Ends later = ends_of("later handler");
  EXPECT_EQ(later.thrower.code, 7);
  EXPECT_THAT(later.other.out, HasSubstr("rank 1 on "));
}

// The thread that throws has no memory, but the library's own threads can still send.
TEST(Uncaught, WithoutMemoryTheOthersReceiveThatThisRankHasNone) {
  const Ends ends = ends_of("no memory here");
  EXPECT_EQ(ends.thrower.code, 1);
  EXPECT_THAT(ends.thrower.err, HasSubstr("error: out of memory"));
  EXPECT_THAT(ends.other.out, HasSubstr("rank 1 on "));
  EXPECT_THAT(ends.other.out, HasSubstr("cannot go on: out of memory"));
}

// Sanitizers need more address space than the limit allows.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(Uncaught, AProgramThatHasUsedAllMemoryStillSaysWhy) {
  const Ends ends = ends_of("no memory");
  EXPECT_EQ(ends.thrower.code, 1);
  EXPECT_THAT(ends.thrower.err, HasSubstr("error: out of memory"));
  EXPECT_THAT(ends.other.out, HasSubstr("out of memory"));
}
#endif

// The world fails, and the program goes on.
TEST(Uncaught, AThreadOfTheLibraryWithoutMemoryEndsTheWorldOnly) {
  const Ends ends = ends_of("no memory elsewhere, once");
  EXPECT_EQ(ends.thrower.code, 1);
  EXPECT_THAT(ends.thrower.err, HasSubstr("cannot go on: out of memory"));
  EXPECT_THAT(ends.other.out, HasSubstr("cannot go on: out of memory"));
}

TEST(Uncaught, AThreadOfTheLibraryThatGetsNoMemoryAtAllEndsTheProcess) {
  const Ends ends = ends_of("no memory elsewhere");
  EXPECT_NE(ends.thrower.code, 0);
  EXPECT_THAT(ends.other.out, HasSubstr("rank 1 on "));
}

TEST(Uncaught, InAChildThatForkMadeItDoesNotConcernTheRanks) {
  const Ends ends = ends_of("child");
  EXPECT_EQ(ends.thrower.code, 0);
  EXPECT_EQ(ends.thrower.out, text("before the fork\nsignal ", SIGABRT, "\n"));
  EXPECT_THAT(ends.thrower.err, HasSubstr("terminate called after throwing"));
  EXPECT_EQ(ends.other.out, "");
}

TEST(Uncaught, OneThatIsCaughtOutsideTheWorldIsNotAnOrderlyEnd) {
  const Ends ends = ends_of("caught");
  EXPECT_EQ(ends.thrower.code, 0);
  EXPECT_THAT(ends.thrower.out, HasSubstr("cannot read part-0007.h5"));
  EXPECT_THAT(ends.other.out,
              HasSubstr("left the world after 1 operations, because of an exception that its own output "
                        "may name, but rank 0 calls barrier #1"));
}

TEST(Uncaught, AnErrorBeforeThereIsAWorldIsOneLineToo) {
  const testing::Outcome end = testing::run({THROWER, "error"}, {.environment = {"ANELLO_SIZE", "ANELLO_RANK=1"}});
  EXPECT_EQ(end.code, 1);
  EXPECT_EQ(end.err, "anello: rank 1: error: ANELLO_RANK=1 is set, but ANELLO_SIZE is not; set both\n");
}

}  // namespace
}  // namespace anello
