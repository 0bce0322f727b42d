// Timelines of whole worlds: recorded by all ranks, written by one rank.
#include <gmock/gmock.h>

#include <thread>

#include "tests/support/algorithms.hpp"
#include "tests/support/scratch.hpp"
#include "tests/support/timeline_file.hpp"
#include "tests/support/worlds.hpp"

namespace anello::world {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

std::vector<std::string> names(const TimelineFile::Events& events) {
  std::vector<std::string> all;
  for (const auto& event : events) all.push_back(event["name"]);
  return all;
}

// Returns the timeline of `body` on all ranks.
TimelineFile timeline_of(int ranks, const std::function<void(World&)>& body) {
  const Scratch scratch;
  const std::string path = scratch / "timeline.json";
  run_world(
      ranks,
      [&](World& world) {
        world.barrier({.name = "before"});
        world.start_timeline(path);
        body(world);
        world.stop_timeline();
        world.barrier({.name = "after"});
      },
      Settings::from_environment());
  return TimelineFile(std::filesystem::path(path));
}

class TimelineOf : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Algorithms, TimelineOf, testing::ValuesIn(algorithms_by_name()));

// 25,000 elements do not fit into the links at once, so steps are carried out in pieces.
TEST_P(TimelineOf, HasEveryMessageOfEveryRank) {
  const TimelineFile file = timeline_of(4, [](World& world) {
    std::vector<float> values(25'000);
    for (int k = 0; k < 3; k++) world.allreduce(values, Op::average, {.name = "gradients", .algorithm = GetParam()});
  });
  EXPECT_THAT(file.ranks, UnorderedElementsAre(0, 1, 2, 3));
  EXPECT_GE(file.check(), 3u * 2 * 3) << "messages";
  EXPECT_EQ(file.named("gradients").size(), 3u * 4);
  EXPECT_TRUE(file.named("before").empty());
  EXPECT_TRUE(file.named("after").empty());
}

TEST(Timeline, BytesAreThoseThatTravel) {
  const TimelineFile file = timeline_of(2, [](World& world) {
    std::vector<float> values(1000);
    world.allreduce(values, Op::sum, {.algorithm = "one_shot"});
    world.allreduce(values, Op::sum, {.algorithm = "one_shot", .wire = DType::bf16});
  });
  file.check();
  const auto sent = file.on_row(1, "to rank 0");
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0]["args"]["bytes"], 4000);
  EXPECT_EQ(sent[1]["args"]["bytes"], 2000);
  EXPECT_THAT(names(file.on_row(1, "from rank 0")), ElementsAre("reduce", "reduce"));
}

// A result may be too large for the type in which it is sent.
TEST(Timeline, ShowsTheScalingThatFollowsANarrowerType) {
  const TimelineFile file = timeline_of(2, [](World& world) {
    std::vector<float> values(1000, 60'000);
    world.allreduce(values, Op::average, {.postscale = 4});
    world.allreduce(values, Op::average, {.wire = DType::f16, .prescale = 0.25, .postscale = 4});
    EXPECT_EQ(values[0], 240'000);
  });
  EXPECT_EQ(file.named("scale").size(), 2u);
}

TEST(Timeline, GroupsAndTransfersHaveRowsOfTheirOwn) {
  const TimelineFile file = timeline_of(3, [](World& world) {
    std::vector<float> values(100);
    if (world.rank() != 1) {
      Group group = world.group({2, 0});
      group.allreduce(values, Op::sum, {.name = "ours"});
    }
    if (world.rank() == 0) world.send(values, 1, {.name = "received"});
    if (world.rank() == 1) world.recv(values, 0, {.name = "received"});
  });
  EXPECT_EQ(names(file.on_row(2, "group (2, 0)")), std::vector<std::string>{"ours"});
  EXPECT_FALSE(file.on_row(0, "to rank 2 in group (2, 0)").empty());
  EXPECT_EQ(names(file.on_row(1, "the transfers from rank 0 to rank 1")), std::vector<std::string>{"received"});
}

TEST(Timeline, ShowsWhatWaitedInTheQueueAndTheProgramSPhases) {
  const TimelineFile file = timeline_of(2, [](World& world) {
    std::vector<float> a(100'000), b(100);
    std::vector<Work> all;
    {
      const Phase phase(world, "backward");
      all.push_back(world.allreduce_async(a, Op::sum, {.name = "a"}));
      for (int k = 0; k < 20; k++) all.push_back(world.allreduce_async(b, Op::sum, {.name = "b"}));
    }
    for (Work& work : all) work.wait();
  });
  file.check();
  EXPECT_EQ(file.named("backward").size(), 2u);
  EXPECT_EQ(file.named("b").size(), 40u);
}

TEST(Timeline, OfAWorldOfOne) {
  const TimelineFile file = timeline_of(1, [](World& world) {
    std::vector<float> values(10);
    const Phase phase(world, "outer");
    world.allreduce(values, Op::sum, {.name = "alone"});
  });
  file.check();
  EXPECT_EQ(file.named("alone").size(), 1u);
  EXPECT_EQ(file.named("outer").size(), 1u);
}

TEST(Timeline, CanBeTakenAgainAndAgain) {
  const Scratch scratch;
  run_world(
      2,
      [&](World& world) {
        std::vector<float> values(10);
        for (const std::string name : {"one", "two"}) {
          world.start_timeline(scratch / name);
          world.allreduce(values, Op::sum, {.name = name});
          world.stop_timeline();
          const Phase phase(world, "in none");
        }
      },
      Settings::from_environment());
  EXPECT_EQ(TimelineFile(scratch / "one").named("one").size(), 2u);
  EXPECT_EQ(TimelineFile(scratch / "two").named("one").size(), 0u);
  EXPECT_EQ(TimelineFile(scratch / "two").named("two").size(), 2u);
}

// Other threads go on while the timeline starts and stops. The timeline must contain only whole operations.
TEST(Timeline, StartsAndStopsInTheMiddleOfOtherWork) {
  const Scratch scratch;
  run_world(
      2,
      [&](World& world) {
        Group group = world.group({0, 1});
        std::thread other([&] {
          std::vector<float> values(1000);
          for (int k = 0; k < 2000; k++) group.allreduce(values, Op::sum, {.name = "beside"});
        });
        for (int k = 0; k < 3; k++) {
          world.start_timeline(scratch / std::to_string(k));
          world.barrier();
          world.stop_timeline();
        }
        other.join();
      },
      Settings::from_environment());
  for (int k = 0; k < 3; k++) {
    const TimelineFile file(scratch / std::to_string(k));
    EXPECT_GE(file.on_row(0, "the world").size(), 1u);
  }
}

TEST(Timeline, FromTheSettingsLastsUntilTheWorldIsFinished) {
  const Scratch scratch;
  Settings settings = Settings::from_environment();
  settings.timeline = scratch / "timeline.json";
  run_world(
      3,
      [&](World& world) {
        std::vector<float> values(10);
        world.allreduce(values, Op::sum, {.name = "only"});
        world.finish();
      },
      settings);
  const TimelineFile file(std::filesystem::path(settings.timeline));
  EXPECT_GT(file.check(), 0u);
  EXPECT_EQ(file.named("only").size(), 3u);
}

TEST(Timeline, OfAWorldThatFailedIsAFileARank) {
  const Scratch scratch;
  const std::string path = scratch / "timeline.json";
  testing::internal::CaptureStderr();
  const auto told = told_on_all_ranks(3, [&](World& world) {
    world.start_timeline(path);
    world.barrier({.name = "the last"});
    std::vector<float> values(world.rank() == 1 ? 9 : 10);
    world.allreduce(values);
  });
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("this rank's part is in '" + path + ".rank2'"));
  for (const Told& each : told) {
    EXPECT_EQ(each.error->code(), ErrorCode::mismatch);
    const TimelineFile file(std::filesystem::path(path + ".rank" + std::to_string(each.rank)));
    EXPECT_EQ(file.ranks, std::vector<int>{each.rank});
    EXPECT_EQ(file.named("the last").size(), 1u);
  }
}

TEST(Timeline, AFileThatCannotBeWrittenIsToldToAll) {
  for (const std::string path : {"/dev/null/timeline.json", "/dev/full"}) {
    const auto told = told_on_all_ranks(3, [&](World& world) {
      world.start_timeline(path);
      for (int k = 0; k < 100; k++) world.barrier();
      world.stop_timeline();
    });
    for (const Told& each : told) {
      ASSERT_TRUE(each.error) << path;
      EXPECT_EQ(each.error->code(), ErrorCode::file);
      EXPECT_THAT(each.error->what(), HasSubstr("the timeline '" + path + "' cannot be written: No"));
    }
  }
}

TEST(Timeline, OfTheSettingsThatCannotBeWrittenIsAWarning) {
  for (const std::string path : {"/dev/null/timeline.json", "/dev/full"}) {
    Settings settings = Settings::from_environment();
    settings.timeline = path;
    testing::internal::CaptureStderr();
    const auto told = told_on_all_ranks(
        2, [](World& world) { world.barrier(), world.finish(); }, settings);
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                HasSubstr("warning: the timeline '" + path + "' cannot be written: No"));
    for (const Told& each : told) EXPECT_FALSE(each.error) << each.error->what();
  }
}

TEST(Timeline, IsOnOnceOrNotAtAll) {
  const Scratch scratch;
  run_world(
      2,
      [&](World& world) {
        EXPECT_THROW(world.stop_timeline(), Error);
        world.start_timeline(scratch / "a");
        try {
          world.start_timeline(scratch / "b");
          ADD_FAILURE();
        } catch (const Error& e) {
          EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
          EXPECT_THAT(e.what(), HasSubstr("a' is already on"));
        }
        world.stop_timeline();
        world.barrier();
      },
      Settings::from_environment());
}

}  // namespace
}  // namespace anello::world
