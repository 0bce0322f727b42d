// An operation that waits for long is reported, and goes on.
#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

#include "ring/base/text.hpp"
#include "tests/support/faults.hpp"
#include "tests/support/undisturbed.hpp"
#include "tests/support/worlds.hpp"

namespace anello::failure {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::AnyOf;
using testing::Each;
using testing::HasSubstr;
using testing::Not;
using testing::Property;
using testing::SizeIs;

constexpr milliseconds kStall{200};

// Captures standard error until this object is destroyed, also by an exception.
class CapturedErrors {
 public:
  CapturedErrors() { testing::internal::CaptureStderr(); }
  ~CapturedErrors() { (void)take(); }
  CapturedErrors(const CapturedErrors&) = delete;
  CapturedErrors& operator=(const CapturedErrors&) = delete;

  std::string take() { return std::exchange(taken_, true) ? "" : testing::internal::GetCapturedStderr(); }

 private:
  bool taken_ = false;
};

// Returns the text that is written to standard error while the ranks run `body`.
std::string reports(int ranks, const Program& body, milliseconds stall_time = kStall) {
  Settings settings = Settings::from_environment();
  settings.stall_time = stall_time;
  CapturedErrors captured;
  run_world(ranks, body, settings);
  return captured.take();
}

// Expects that a text is written while a rank sleeps. On a busy machine, the other ranks may not wait long enough in
// this time. If the text is missing, `body` runs again, and the rank sleeps longer.
void expect_report(int ranks, const std::function<void(World&, milliseconds)>& body,
                   const testing::Matcher<std::string>& says, milliseconds stall_time = kStall) {
  constexpr milliseconds kFirst{900}, kLast{8100};
  for (milliseconds sleep = kFirst;; sleep *= 3) {
    const std::string said = reports(
        ranks, [&](World& world) { body(world, sleep); }, stall_time);
    if (!says.Matches(said) && sleep < kLast) continue;
    EXPECT_THAT(said, says);
    return;
  }
}

class LateRank : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Of4, LateRank, testing::Values(0, 2, 3));

TEST_P(LateRank, IsNamedWithWhatItCalledLast) {
  const auto body = [](World& world, milliseconds sleep) {
    std::vector<float> values(100);
    world.broadcast(values, 0);
    if (world.rank() == GetParam()) std::this_thread::sleep_for(sleep);
    world.allreduce(values);
  };
  const std::string late = std::to_string(GetParam());
  expect_report(4, body,
                HasSubstr("warning: allreduce #1 (sum of 100 f32) has stalled for 0.2 s: rank " + late +
                          " on localhost has not come, and called last broadcast #0 (100 f32 from root 0); rank"));
}

TEST(Stall, OfAGroupIsReportedWithItsName) {
  const auto body = [](World& world, milliseconds sleep) {
    world.barrier();
    if (world.rank() == 1) return world.barrier();
    Group group = world.group({2, 0});
    if (world.rank() == 2) std::this_thread::sleep_for(sleep);
    group.barrier();
    world.barrier();
  };
  // Rank 0 may not have received yet that its group waits. Then the report describes rank 0 in the same way as rank 2.
  expect_report(
      3, body,
      AllOf(HasSubstr("barrier #0 in group (2, 0) has stalled for 0.2 s: rank 2 on localhost has not come, and "
                      "called nothing before; rank 0 waits"),
            AnyOf(HasSubstr("barrier #1 has stalled for 0.2 s: rank 0 on localhost has not come, and "),
                  HasSubstr("barrier #1 has stalled for 0.2 s: ranks 0, 2 have not come, and "))));
}

TEST(Stall, OfAsynchronousWorkIsReportedToo) {
  const auto body = [](World& world, milliseconds sleep) {
    std::vector<float> values(10);
    if (world.rank() == 1) std::this_thread::sleep_for(sleep);
    Work work = world.allreduce_async(values);
    while (!work.done()) std::this_thread::sleep_for(milliseconds(5));
    work.wait();
  };
  expect_report(2, body, HasSubstr("rank 1 on localhost has not come, and called nothing before; rank 0 waits\n"));
}

// Makes a call that is refused, and catches the error.
void call_wrongly(Group& world) {
  std::vector<float> input(100), output(99);
  EXPECT_THROW(world.allreduce(input, output), Error);
  EXPECT_THROW(world.allreduce_async(input, output), Error);
}
constexpr const char* kWrong =
    "rank 1 on localhost refused its call: allreduce: the input has 100 elements but the output 99";

class Refusal : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Of, Refusal, testing::Values(2, 3));

// The report about the refused call comes long before ANELLO_STALL_TIME. The rank's next call is right, and then the
// operation succeeds on all ranks.
TEST_P(Refusal, IsReportedToTheRanksThatWait) {
  const auto body = [](World& world, milliseconds sleep) {
    world.barrier();
    if (world.rank() == 1) {
      call_wrongly(world);
      std::this_thread::sleep_for(sleep);
    }
    std::vector<float> values(100, 1);
    world.allreduce(values);
    EXPECT_EQ(values, std::vector<float>(100, float(world.size())));
    world.barrier();
  };
  expect_report(GetParam(), body,
                HasSubstr(text("warning: allreduce #1 (sum of 100 f32) cannot go on: ", kWrong, "; rank")),
                std::chrono::minutes(1));
}

TEST_P(Refusal, OfWorkThatNoThreadCanMoveIsReportedToo) {
  const auto body = [](World& world, milliseconds sleep) {
    std::vector<float> values(100, 1);
    if (world.rank() == 1) {
      faults::plan({.thread = 0});
      EXPECT_THROW(world.allreduce_async(values), Error);
      EXPECT_TRUE(faults::plan({}));
      std::this_thread::sleep_for(sleep);
    }
    world.allreduce_async(values).wait();
    EXPECT_EQ(values, std::vector<float>(100, float(world.size())));
    world.barrier();
  };
  expect_report(GetParam(), body,
                HasSubstr("warning: allreduce #0 (sum of 100 f32) cannot go on: rank 1 on localhost refused its call: "
                          "no thread for asynchronous work"),
                std::chrono::minutes(1));
}

// Runs a world of four in which rank `late` does not come to an operation before the world has ended. Returns the
// errors of all ranks.
std::vector<Error> errors_with_limit(milliseconds limit, int late) {
  Settings settings = Settings::from_environment();
  settings.operation_limit = limit;
  const std::vector<Told> told = told_on_all_ranks(
      4,
      [&](World& world) {
        world.barrier();
        while (world.rank() == late && !world.failure()) std::this_thread::sleep_for(milliseconds(5));
        std::vector<float> values(100);
        world.allreduce(values);
      },
      settings);
  std::vector<Error> errors;
  for (const Told& each : told)
    if (each.error) errors.push_back(*each.error);
  return errors;
}

// On a busy machine, the other ranks may miss a short limit too.
TEST_P(LateRank, EndsTheWorldWhereOperationsHaveALimit) {
  constexpr milliseconds kLast{27 * kStall};
  const auto says_so = AllOf(
      Property(&Error::code, ErrorCode::timed_out), Property(&Error::rank, GetParam()),
      Property(&Error::message,
               AllOf(HasSubstr("allreduce #1 (sum of 100 f32) has stalled for "), HasSubstr(" s: rank"),
                     HasSubstr("has not come, and called last barrier #0"), HasSubstr("(ANELLO_OPERATION_LIMIT)"))));
  const testing::Matcher<std::vector<Error>> all_say_so = AllOf(SizeIs(4), Each(says_so));
  for (milliseconds limit = kStall;; limit *= 3) {
    const std::vector<Error> errors = errors_with_limit(limit, GetParam());
    if (!all_say_so.Matches(errors) && limit < kLast) continue;
    EXPECT_THAT(errors, all_say_so);
    return;
  }
}

// Rank 1 makes the group only later.
TEST(Stall, OfAGroupThatARankHasNotMade) {
  const auto body = [](World& world, milliseconds sleep) {
    if (world.rank() == 1) std::this_thread::sleep_for(sleep);
    world.group({0, 1}).barrier();
  };
  expect_report(2, body,
                HasSubstr("barrier #0 in group (0, 1) has stalled for 0.2 s: rank 1 on localhost has not made this "
                          "group; rank 0 waits\n"));
}

TEST(Stall, OfAReceiveWithoutASend) {
  const auto body = [](World& world, milliseconds sleep) {
    std::vector<float> values(16);
    if (world.rank() == 0) return world.recv(values, 1);
    std::this_thread::sleep_for(sleep);
    world.send(values, 0);
  };
  expect_report(2, body,
                HasSubstr("transfer #0 (16 f32) in the transfers from rank 1 to rank 0 has stalled for 0.2 s: rank 1 "
                          "on localhost has not called send to rank 0; rank 0 waits\n"));
}

TEST(Stall, OfASendWithoutAReceive) {
  const auto body = [](World& world, milliseconds sleep) {
    std::vector<float> values(4 << 20);  // more than fits into any buffer
    if (world.rank() == 0) return world.send(values, 1);
    std::this_thread::sleep_for(sleep);
    world.recv(values, 0);
  };
  expect_report(2, body,
                HasSubstr("in the transfers from rank 0 to rank 1 has stalled for 0.2 s: rank 1 on localhost has not "
                          "called recv from rank 0; rank 0 waits\n"));
}

// Returns the errors that the ranks of a world receive at ANELLO_OPERATION_LIMIT.
std::vector<Error> errors_at_the_limit(int ranks, milliseconds limit, const Program& program) {
  Settings settings = Settings::from_environment();
  settings.operation_limit = limit;
  std::vector<Error> errors;
  for (const Told& told : told_on_all_ranks(ranks, program, settings)) {
    EXPECT_TRUE(told.error) << "rank " << told.rank;
    if (!told.error) continue;
    EXPECT_EQ(told.error->code(), ErrorCode::timed_out) << told.error->what();
    errors.push_back(*told.error);
  }
  return errors;
}

// The message says what the culprit does at the moment. On a busy machine, the culprit may not wait yet when it is
// asked, and the message lacks this; then the ranks try again with a longer limit.
void expect_at_the_limit(const Program& program, const std::function<testing::Matcher<std::string>(int)>& says) {
  constexpr milliseconds kFirst{500}, kLast{8000};
  for (milliseconds limit = kFirst;; limit *= 2) {
    const std::vector<Error> errors = errors_at_the_limit(2, limit, program);
    const bool is_right =
        std::ranges::all_of(errors, [&](const Error& e) { return says(e.rank()).Matches(e.message()); });
    if (!is_right && limit < kLast) continue;
    for (const Error& error : errors) {
      EXPECT_THAT(error.rank(), AnyOf(0, 1));
      EXPECT_THAT(error.message(), says(error.rank()));
    }
    return;
  }
}

TEST(Refusals, AreInTheErrorWhereOperationsHaveALimit) {
  const Program one_calls_wrongly = [](World& world) {
    if (world.rank() == 1) call_wrongly(world);
    while (world.rank() == 1 && !world.failure()) std::this_thread::sleep_for(milliseconds(5));
    world.barrier();
  };
  expect_at_the_limit(one_calls_wrongly, [](int) { return HasSubstr(kWrong); });
}

TEST(Stall, OfTwoRanksThatBothReceiveFirst) {
  const Program both_receive = [](World& world) {
    std::vector<float> values(16);
    world.recv(values, 1 - world.rank());
    world.send(values, 1 - world.rank());
  };
  expect_at_the_limit(both_receive, [](int culprit) {
    const std::string late = std::to_string(culprit), other = std::to_string(1 - culprit);
    return HasSubstr("rank " + late + " on localhost has not called send to rank " + other +
                     ", and waits in transfer #0 (16 f32) in the transfers from rank " + other + " to rank " + late +
                     "; rank " + other + " waits");
  });
}

TEST(Stall, OfATransferBesideACollectiveOfTheSameRanks) {
  for (const int receiver : {0, 1}) {
    const Program one_receives = [receiver](World& world) {
      std::vector<float> values(16);
      if (world.rank() == receiver) world.recv(values, 1 - receiver);
      std::this_thread::sleep_for(milliseconds(100));  // so that the transfer's limit comes first
      world.allreduce(values);
    };
    expect_at_the_limit(one_receives, [](int) {
      return AllOf(HasSubstr(", and waits in "), Not(HasSubstr("this group")), Not(HasSubstr("another")));
    });
  }
}

TEST(Stall, OfAGroupWhoseMembersAreInAnotherOrder) {
  const Program each_is_first = [](World& world) { world.group({world.rank(), 1 - world.rank()}).barrier(); };
  expect_at_the_limit(each_is_first, [](int) {
    return AllOf(HasSubstr(" on localhost has not made this group, and waits in barrier #0 in group ("),
                 HasSubstr("), whose members are the same in another order; all ranks must name them in the same "
                           "order; rank "));
  });
}

// Data arrive from time to time, so the root's operation makes progress, though it takes long. The ranks have opened
// the links before that operation.
TEST(Stall, IsCountedFromTheLastProgress) {
  constexpr milliseconds kLimit{1000}, kBetween{500};
  Settings settings = Settings::from_environment();
  settings.operation_limit = kLimit;
  settings.stall_time = kLimit;
  CapturedErrors captured;
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
  EXPECT_THAT(captured.take(), Not(HasSubstr("stalled")));
}

// The time between reports doubles. A rank that has no core when a report is due reports at the next of these times
// instead.
TEST(Stall, IsReportedAgainAfterTwiceTheTime) {
  undisturbed(milliseconds(20), [&] {
    Settings settings = Settings::from_environment();
    settings.stall_time = milliseconds(100);
    CapturedErrors captured;
    run_world(
        2,
        [](World& world) {
          if (world.rank() == 1) std::this_thread::sleep_for(milliseconds(1200));
          world.barrier();
          EXPECT_LE(world.counters().stalls, 6u);
        },
        settings);
    const std::string said = captured.take();
    std::size_t reports = 0, place = 0;
    for (const char* time : {"0.1", "0.2", "0.4", "0.8", "1.6", "3.2"}) {
      const auto found = said.find(text("barrier #0 has stalled for ", time, " s: "), place);
      if (found == std::string::npos) continue;
      reports++;
      place = found;
    }
    EXPECT_THAT(said, HasSubstr(" s: rank 1 on localhost has not come, and called nothing before; rank 0 waits\n"));
    EXPECT_GE(reports, 2) << said;
    EXPECT_EQ(reports, std::size_t(std::ranges::count(said, '\n'))) << said;
  });
}

TEST(Stall, IsReportedByTheLowestRankThatHasNotLeft) {
  undisturbed(milliseconds(20), [&] {
    Settings settings = Settings::from_environment();
    settings.stall_time = milliseconds(100);
    CapturedErrors captured;
    run_world(
        3,
        [&](World& world) {
          if (world.rank() == 0) return;
          Group pair = world.group({1, 2});
          if (world.rank() == 2) std::this_thread::sleep_for(milliseconds(1500));
          pair.barrier();
        },
        settings);
    EXPECT_THAT(captured.take(), HasSubstr(" s: rank 2 on localhost has not come"));
  });
}

TEST(Stall, IsNotReportedOfWhatGetsOn) {
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
