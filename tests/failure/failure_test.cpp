// Ranks that leave, throw or end the world: all ranks receive the same error, soon, and no call hangs.
#include <gmock/gmock.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "ring/base/text.hpp"
#include "tests/support/worlds.hpp"

namespace anello::failure {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

void expect_told(const Told& told, ErrorCode code, int culprit, const std::string& what) {
  ASSERT_TRUE(told.error) << "rank " << told.rank << " was told nothing";
  EXPECT_EQ(told.error->code(), code) << told.error->what();
  EXPECT_EQ(told.error->rank(), culprit) << told.error->what();
  EXPECT_THAT(told.error->message(), HasSubstr(what));
}

class InWorldsOf : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, InWorldsOf, testing::Values(2, 3, 4, 7));

TEST_P(InWorldsOf, ARankThatLeavesEarlyIsNamed) {
  for (const int leaver : {0, GetParam() - 1}) {
    const std::vector<Told> all = told_on_all_ranks(GetParam(), [&](World& world) {
      for (int k = 0; k < 3; k++) EXPECT_EQ(carry_out(world, {.count = 10}), "");
      if (world.rank() != leaver) carry_out(world, {.count = 10});
    });
    for (const Told& told : all) {
      if (told.rank == leaver) continue;
      expect_told(told, ErrorCode::rank_left, leaver,
                  text("rank ", leaver, " on localhost left the world after 3 operations"));
      EXPECT_LT(told.after, seconds(5) + told.lateness) << "no limit ran out";
    }
  }
}

// A rank may leave once no other rank needs it: everything that it has sent still arrives.
TEST_P(InWorldsOf, ARankThatIsDoneMayLeave) {
  for (int run = 0; run < 20; run++)
    run_world(GetParam(), [&](World& world) {
      EXPECT_EQ(carry_out(world, {.kind = Kind::broadcast, .count = 3000, .root = run % world.size()}), "");
    });
}

TEST_P(InWorldsOf, TheFirstExceptionIsThrownAgain) {
  const auto began = std::chrono::steady_clock::now();
  Starvation starvation;
  try {
    run_world(GetParam(), [&](World& world) {
      world.barrier();
      if (world.rank() == 1) throw std::runtime_error("no more data");
      world.barrier();
    });
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& e) {
    EXPECT_STREQ(e.what(), "no more data");
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, seconds(2) + lateness(starvation.longest()));
}

TEST_P(InWorldsOf, TheOthersReceiveWhatWasThrown) {
  std::vector<Told> all(static_cast<std::size_t>(GetParam()));
  EXPECT_THROW(run_world(GetParam(),
                         [&](World& world) {
                           if (world.rank() == 1) throw std::runtime_error("no more data");
                           try {
                             world.barrier();
                           } catch (const Error& e) {
                             all[std::size_t(world.rank())].error = e;
                             throw;
                           }
                         }),
               std::runtime_error);
  for (std::size_t rank = 0; rank < all.size(); rank++)
    if (rank != 1) expect_told(all[rank], ErrorCode::aborted, 1, "rank 1 on localhost ended the world: no more data");
}

void reduce_forever(World& world) {
  std::vector<float> data(1000);
  for (;;) world.allreduce(data);
}

// Another thread of one of the ranks aborts, while all ranks are inside operations.
TEST_P(InWorldsOf, AbortEndsWhatIsUnderWay) {
  for (const int aborter : {0, GetParam() - 1}) {
    const std::vector<Told> all = told_on_all_ranks(GetParam(), [&](World& world) {
      std::jthread other;
      if (world.rank() == aborter)
        other = std::jthread([&] {
          std::this_thread::sleep_for(milliseconds(30));
          world.abort("enough");
        });
      reduce_forever(world);
    });
    for (const Told& told : all) {
      expect_told(told, ErrorCode::aborted, aborter, text("rank ", aborter, " on localhost ended the world: enough"));
      EXPECT_LT(told.after, seconds(2) + told.lateness);
    }
  }
}

// All other ranks sleep in a barrier when the last rank aborts.
TEST_P(InWorldsOf, AbortWakesRanksThatWait) {
  const int last = GetParam() - 1;
  const std::vector<Told> all = told_on_all_ranks(GetParam(), [&](World& world) {
    if (world.rank() == last) {
      std::this_thread::sleep_for(milliseconds(100));
      world.abort("enough");
    }
    world.barrier();
  });
  for (const Told& told : all) {
    expect_told(told, ErrorCode::aborted, last, "enough");
    EXPECT_LT(told.after, seconds(2) + told.lateness);
  }
}

// A thread that makes no calls can ask whether the world has failed. To end the world, a handle of any of its groups is
// enough.
TEST_P(InWorldsOf, AFailureCanBeSeenWithoutACall) {
  run_world(GetParam(), [](World& world) {
    Group same = world.split(0);
    EXPECT_FALSE(world.failure());
    EXPECT_FALSE(same.failure());
    try {
      world.barrier();
      if (world.rank() == 0) same.abort("enough");
    } catch (const Error&) {
      // rank 0 has aborted before
    }
    const auto end = std::chrono::steady_clock::now() + seconds(20);
    while (!same.failure() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    for (const Group* each : std::initializer_list<const Group*>{&same, &world}) {
      ASSERT_TRUE(each->failure());
      EXPECT_EQ(each->failure()->code(), ErrorCode::aborted);
      EXPECT_EQ(each->failure()->message(), "rank 0 on localhost ended the world: enough");
    }
  });
}

TEST(InAWorldOfOne, AFailureCanBeSeenToo) {
  run_world(1, [](World& world) {
    EXPECT_FALSE(world.failure());
    world.abort("enough");
    ASSERT_TRUE(world.failure());
    EXPECT_THAT(world.failure()->message(), HasSubstr("enough"));
  });
}

TEST_P(InWorldsOf, SeveralAbortsAtOnceAreOne) {
  const std::vector<Told> all = told_on_all_ranks(GetParam(), [&](World& world) {
    world.barrier();
    world.abort(text("reason ", world.rank()));
    reduce_forever(world);
  });
  for (const Told& told : all) {
    ASSERT_TRUE(told.error);
    EXPECT_EQ(told.error->message(), all[0].error->message());
  }
}

TEST_P(InWorldsOf, AFailedWorldStaysFailed) {
  run_world(GetParam(), [](World& world) {
    if (world.rank() == 0) world.abort("enough");
    std::string first;
    for (int k = 0; k < 3; k++) {
      try {
        reduce_forever(world);
      } catch (const Error& e) {
        if (k == 0) first = e.message();
        EXPECT_EQ(e.message(), first);
        EXPECT_EQ(e.code(), ErrorCode::aborted);
      }
    }
    EXPECT_THROW(world.finish(), Error);
    EXPECT_THROW(world.barrier(), Error);
  });
}

// A rank's calls after its own abort fail, even if the other ranks have not received the abort yet and take part in
// these calls.
TEST_P(InWorldsOf, CallsAfterAnOwnAbortFail) {
  for (int run = 0; run < 20; run++) {
    const std::vector<Told> all = told_on_all_ranks(GetParam(), [](World& world) {
      if (world.rank() == 0) world.abort("enough");
      world.barrier();
    });
    for (const Told& told : all) expect_told(told, ErrorCode::aborted, 0, "enough");
  }
}

TEST(Failure, AWorldOfOneCanBeEndedToo) {
  run_world(1, [](World& world) {
    EXPECT_EQ(carry_out(world, {.count = 10}), "");
    world.abort("enough");
    for (int k = 0; k < 2; k++) {
      try {
        world.average(1.0);
        FAIL() << "the world has ended";
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::aborted);
        EXPECT_EQ(e.rank(), 0);
        EXPECT_THAT(e.message(), HasSubstr("rank 0 on localhost ended the world: enough"));
      }
    }
  });
}

TEST(Failure, AnErrorSaysWhatWasCalledAndHowFarItGot) {
  const std::vector<Told> all = told_on_all_ranks(2, [](World& world) {
    std::vector<float> data(100);
    if (world.rank() == 0) {
      std::this_thread::sleep_for(milliseconds(50));
      world.abort("enough");
    }
    world.allreduce(data, Op::max, {.name = "gradient"});
  });
  ASSERT_TRUE(all[1].error);
  EXPECT_THAT(all[1].error->what(), StartsWith("allreduce #0 (max of 100 f32) 'gradient', "));
  EXPECT_THAT(all[1].error->what(), AllOf(HasSubstr(" % done: "), HasSubstr("rank 0 on localhost ended the world")));
}

TEST_P(InWorldsOf, AfterFinishNothingMayBeCalled) {
  run_world(GetParam(), [](World& world) {
    EXPECT_EQ(carry_out(world, {.count = 10}), "");
    world.finish();
    try {
      world.barrier();
      FAIL() << "the world is finished";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
      EXPECT_THAT(e.what(), HasSubstr("used after finish()"));
    }
    EXPECT_THROW(world.finish(), Error);
    world.abort("too late");
  });
}

TEST(Failure, FinishThrowsIfAnotherRankHasFailed) {
  const std::vector<Told> all = told_on_all_ranks(3, [](World& world) {
    world.barrier();
    if (world.rank() == 1) return;
    world.finish();
  });
  for (const int rank : {0, 2})
    expect_told(all[std::size_t(rank)], ErrorCode::rank_left, 1, "rank 1 on localhost left");
}

// The threads call in any order, so all their calls must be equal.
TEST_P(InWorldsOf, ThreadsOfOneRankTakeTurns) {
  run_world(GetParam(), [](World& world) {
    constexpr int kThreads = 4, kRounds = 25;
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; t++)
      threads.emplace_back([&] {
        for (int round = 0; round < kRounds; round++) {
          std::vector<std::int32_t> data(500, 1);
          world.allreduce(data);
          EXPECT_EQ(data.front(), world.size());
          EXPECT_EQ(data.back(), world.size());
        }
      });
  });
}

// One thread ends the world while other threads are in calls.
TEST_P(InWorldsOf, AllThreadsReceiveTheError) {
  std::atomic<int> told = 0;
  run_world(GetParam(), [&](World& world) {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 3; t++)
      threads.emplace_back([&] {
        try {
          reduce_forever(world);
        } catch (const Error& e) {
          EXPECT_EQ(e.code(), ErrorCode::aborted) << e.what();
          told++;
        }
      });
    std::this_thread::sleep_for(milliseconds(20));
    if (world.rank() == 0) world.abort("enough");
  });
  EXPECT_EQ(told, 3 * GetParam());
}

}  // namespace
}  // namespace anello::failure
