// An operation that waits for long is reported by rank 0, and goes on.
#include <gmock/gmock.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <thread>

#include "tests/support/worlds.hpp"

namespace anello::failure {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

constexpr milliseconds kStall{200}, kSleep{900};

// What is written to standard error while the ranks do this.
std::string reports(int ranks, const std::function<void(World&)>& body) {
  Settings settings = Settings::from_environment();
  settings.stall_time = kStall;
  testing::internal::CaptureStderr();
  run_world(ranks, body, settings);
  return testing::internal::GetCapturedStderr();
}

class LateRank : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Of4, LateRank, testing::Values(0, 2, 3));

TEST_P(LateRank, is_named_with_what_it_called_last) {
  const std::string said = reports(4, [](World& world) {
    std::vector<float> values(100);
    world.broadcast(values, 0);
    if (world.rank() == GetParam()) std::this_thread::sleep_for(kSleep);
    world.allreduce(values);
  });
  const std::string late = std::to_string(GetParam());
  EXPECT_THAT(said, HasSubstr("warning: allreduce #1 (sum of 100 f32) has stalled for 0.2 s: rank " + late +
                              " on localhost has not come, and called last broadcast #0 (100 f32 from root 0); rank"));
}

TEST(Stall, of_a_group_is_reported_with_its_name) {
  const std::string said = reports(3, [](World& world) {
    world.barrier();
    if (world.rank() == 1) return world.barrier();
    Group group = world.group({2, 0});
    if (world.rank() == 2) std::this_thread::sleep_for(kSleep);
    group.barrier();
    world.barrier();
  });
  EXPECT_THAT(said, HasSubstr("barrier #0 in group (2, 0) has stalled for 0.2 s: rank 2 on localhost has not come, and "
                              "called nothing before; rank 0 waits"));
  // Rank 0 may not know yet that its group waits; then the report says the same of it as of rank 2.
  EXPECT_THAT(said, AnyOf(HasSubstr("barrier #1 has stalled for 0.2 s: rank 0 on localhost has not come, and "),
                          HasSubstr("barrier #1 has stalled for 0.2 s: ranks 0, 2 have not come, and ")));
}

TEST(Stall, of_asynchronous_work_is_reported_too) {
  const std::string said = reports(2, [](World& world) {
    std::vector<float> values(10);
    if (world.rank() == 1) std::this_thread::sleep_for(kSleep);
    Work work = world.allreduce_async(values);
    while (!work.done()) std::this_thread::sleep_for(milliseconds(5));
    work.wait();
  });
  EXPECT_THAT(said, HasSubstr("rank 1 on localhost has not come, and called nothing before; rank 0 waits\n"));
}

// It does not come in time: the world ends, and says for whom it waited.
TEST_P(LateRank, ends_the_world_where_operations_have_a_limit) {
  Settings settings = Settings::from_environment();
  settings.operation_limit = kStall;
  std::mutex mutex;
  std::vector<Error> errors;
  try {
    run_world(
        4,
        [&](World& world) {
          try {
            world.barrier();
            if (world.rank() == GetParam()) std::this_thread::sleep_for(kSleep);
            std::vector<float> values(100);
            world.allreduce(values);
          } catch (const Error& e) {
            const std::lock_guard lock(mutex);
            errors.push_back(e);
            throw;
          }
        },
        settings);
    FAIL() << "it came too late";
  } catch (const Error&) {
  }
  EXPECT_EQ(errors.size(), 4u);
  for (const Error& error : errors) {
    EXPECT_EQ(error.code(), ErrorCode::timed_out) << error.what();
    EXPECT_EQ(error.rank(), GetParam()) << error.what();
    EXPECT_THAT(error.message(),
                AllOf(HasSubstr("allreduce #1 (sum of 100 f32) has stalled for 0.2 s: rank"),
                      HasSubstr("has not come, and called last barrier #0"), HasSubstr("(ANELLO_OPERATION_LIMIT)")));
  }
}

// Rank 1 makes the group later.
TEST(Stall, of_a_group_that_a_rank_has_not_made) {
  const std::string said = reports(2, [](World& world) {
    if (world.rank() == 1) std::this_thread::sleep_for(kSleep);
    world.group({0, 1}).barrier();
  });
  EXPECT_THAT(said, HasSubstr("barrier #0 in group (0, 1) has stalled for 0.2 s: rank 1 on localhost has not made this "
                              "group; rank 0 waits\n"));
}

TEST(Stall, of_a_receive_without_a_send) {
  const std::string said = reports(2, [](World& world) {
    std::vector<float> values(16);
    if (world.rank() == 0) return world.recv(values, 1);
    std::this_thread::sleep_for(kSleep);
    world.send(values, 0);
  });
  EXPECT_THAT(said,
              HasSubstr("transfer #0 (16 f32) in the transfers from rank 1 to rank 0 has stalled for 0.2 s: rank 1 "
                        "on localhost has not called send to rank 0; rank 0 waits\n"));
}

TEST(Stall, of_a_send_without_a_receive) {
  const std::string said = reports(2, [](World& world) {
    std::vector<float> values(4 << 20);  // no buffer takes it all
    if (world.rank() == 0) return world.send(values, 1);
    std::this_thread::sleep_for(kSleep);
    world.recv(values, 0);
  });
  EXPECT_THAT(said,
              HasSubstr("in the transfers from rank 0 to rank 1 has stalled for 0.2 s: rank 1 on localhost has not "
                        "called recv from rank 0; rank 0 waits\n"));
}

// What the ranks of a world are told that cannot go on.
std::vector<Told> told_at_the_limit(int ranks, const Program& program) {
  Settings settings = Settings::from_environment();
  settings.operation_limit = milliseconds(500);
  std::vector<Told> told = told_on_all_ranks(ranks, program, settings);
  for (const Told& each : told) {
    EXPECT_TRUE(each.error) << "rank " << each.rank;
    if (!each.error) continue;
    EXPECT_EQ(each.error->code(), ErrorCode::timed_out) << each.error->what();
  }
  return told;
}

TEST(Stall, of_two_ranks_that_both_receive_first) {
  for (const Told& told : told_at_the_limit(2, [](World& world) {
         std::vector<float> values(16);
         world.recv(values, 1 - world.rank());
         world.send(values, 1 - world.rank());
       }))
    if (told.error) {
      const int culprit = told.error->rank();
      ASSERT_THAT(culprit, testing::AnyOf(0, 1)) << told.error->what();
      const std::string late = std::to_string(culprit), other = std::to_string(1 - culprit);
      EXPECT_THAT(told.error->message(),
                  HasSubstr("rank " + late + " on localhost has not called send to rank " + other +
                            ", and waits in transfer #0 (16 f32) in the transfers from rank " + other + " to rank " +
                            late + "; rank " + other + " waits"));
    }
}

TEST(Stall, of_a_group_whose_members_are_in_another_order) {
  for (const Told& told : told_at_the_limit(2, [](World& world) {
         world.group({world.rank(), 1 - world.rank()}).barrier();
       })) {
    if (!told.error) continue;
    EXPECT_THAT(told.error->rank(), testing::AnyOf(0, 1));
    EXPECT_THAT(told.error->message(),
                AllOf(HasSubstr(" on localhost has not made this group, and waits in barrier #0 in group ("),
                      HasSubstr("), whose members are the same in another order; all ranks must name them in the same "
                                "order; rank ")));
  }
}

// Something arrives every now and then, so the root's operation makes progress, though it takes long. The links are
// opened before.
TEST(Stall, is_counted_from_the_last_progress) {
  constexpr milliseconds kLimit{1000}, kBetween{500};
  Settings settings = Settings::from_environment();
  settings.operation_limit = kLimit;
  settings.stall_time = kLimit;
  testing::internal::CaptureStderr();
  run_world(
      4,
      [&](World& world) {
        std::vector<float> mine(10, float(world.rank())), all(40);
        for (const bool is_late : {false, true}) {
          if (is_late) std::this_thread::sleep_for(world.rank() * kBetween);
          world.gather(mine, all, 0);
        }
        EXPECT_TRUE(world.rank() != 0 || all[39] == 3);
      },
      settings);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), Not(HasSubstr("stalled")));
}

TEST(Stall, is_reported_again_after_twice_the_time) {
  Settings settings = Settings::from_environment();
  settings.stall_time = milliseconds(100);
  testing::internal::CaptureStderr();
  run_world(
      2,
      [](World& world) {
        if (world.rank() == 1) std::this_thread::sleep_for(milliseconds(1200));
        world.barrier();
        EXPECT_LE(world.counters().stalls, 6u);
      },
      settings);
  const std::string said = testing::internal::GetCapturedStderr();
  for (const char* time : {"0.1 s: ", "0.2 s: ", "0.4 s: ", "0.8 s: "})
    EXPECT_THAT(said, HasSubstr(std::string("barrier #0 has stalled for ") + time +
                                "rank 1 on localhost has not come, and called nothing before; rank 0 waits\n"));
  EXPECT_LE(std::ranges::count(said, '\n'), 6) << said;
}

TEST(Stall, is_not_reported_of_what_gets_on) {
  const std::string said = reports(3, [](World& world) {
    const auto end = std::chrono::steady_clock::now() + 2 * kStall;
    for (bool more = true; more;) {
      std::this_thread::sleep_for(milliseconds(world.rank()));
      std::vector<int> votes{std::chrono::steady_clock::now() < end};
      world.allreduce(votes, Op::min);
      more = votes[0];
    }
  });
  EXPECT_THAT(said, Not(HasSubstr("stalled")));
}

}  // namespace
}  // namespace anello::failure
