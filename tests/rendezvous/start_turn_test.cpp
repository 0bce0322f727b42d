#include "rendezvous/join/start_turn.hpp"

#include <gmock/gmock.h>

#include <anello/error.hpp>
#include <future>

#include "rendezvous/protocol/interruption.hpp"
#include "tests/support/process.hpp"

namespace anello::rendezvous {
namespace {

using ::testing::HasSubstr;

std::chrono::steady_clock::time_point in(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

// Returns why the turn is refused; empty if it is granted.
std::string refusal_of_turn(const std::string& job, std::chrono::milliseconds limit) try {
  const StartTurn turn(job, in(limit));
  return {};
} catch (const Error& error) {
  return error.what();
}

TEST(StartTurn, IsForOneThreadAtATime) {
  std::future<std::string> second;
  {
    const StartTurn first("a job", in(testing::kLong));
    second = std::async(std::launch::async, [] { return refusal_of_turn("a job", testing::kLong); });
    EXPECT_EQ(second.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  }
  EXPECT_EQ(second.get(), "");
}

TEST(StartTurn, OfAnotherJobIsNotWaitedFor) {
  const StartTurn turn("a job", in(testing::kLong));
  EXPECT_EQ(refusal_of_turn("another job", testing::kLong), "");
}

TEST(StartTurn, IsWaitedForUntilTheDeadline) {
  const StartTurn turn("a job", in(testing::kLong));
  EXPECT_THAT(refusal_of_turn("a job", std::chrono::milliseconds(20)), HasSubstr("another thread of this process"));
}

TEST(StartTurn, IsNotWaitedForAfterAnInterruption) {
  const StartTurn turn("a job", in(testing::kLong));
  const Interruption interruption([] { return true; });
  EXPECT_THAT(refusal_of_turn("a job", testing::kLong), HasSubstr("init() was interrupted"));
}

}  // namespace
}  // namespace anello::rendezvous
