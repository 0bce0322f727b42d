// An operation that waits for long is reported by rank 0, and goes on.
#include <gmock/gmock.h>

#include <mutex>
#include <optional>
#include <thread>

#include "tests/support/worlds.hpp"

namespace anello::failure {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
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
  EXPECT_THAT(said, AllOf(HasSubstr("warning: allreduce #1 (sum of 100 f32) has stalled: ranks "),
                          HasSubstr("; rank " + late +
                                    " on localhost has not come, and called last broadcast #0 (100 "
                                    "f32 from root 0)\n")));
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
  EXPECT_THAT(said, HasSubstr("barrier #0 in group (2, 0) has stalled: rank 0 waits"));
  EXPECT_THAT(said, HasSubstr("barrier #1 has stalled: rank 1 waits; rank 0 on localhost has not come, and called last "
                              "barrier #0"));
}

TEST(Stall, of_asynchronous_work_is_reported_too) {
  const std::string said = reports(2, [](World& world) {
    std::vector<float> values(10);
    if (world.rank() == 1) std::this_thread::sleep_for(kSleep);
    Work work = world.allreduce_async(values);
    while (!work.done()) std::this_thread::sleep_for(milliseconds(5));
    work.wait();
  });
  EXPECT_THAT(said, HasSubstr("rank 0 waits; rank 1 on localhost has not come, and called nothing before\n"));
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
                AllOf(HasSubstr("allreduce #1 (sum of 100 f32) has stalled: rank"),
                      HasSubstr("has not come, and called last barrier #0"), HasSubstr("(ANELLO_OPERATION_LIMIT)")));
  }
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
