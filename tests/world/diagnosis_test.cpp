// Counters and the flight recorder of whole worlds.
#include <gmock/gmock.h>
#include <unistd.h>

#include <asio/ip/tcp.hpp>
#include <nlohmann/json.hpp>
#include <thread>

#include "ring/base/text.hpp"
#include "tests/support/scratch.hpp"
#include "tests/support/undisturbed.hpp"
#include "tests/support/worlds.hpp"

namespace anello::world {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;

TEST(Counters, AreExact) {
  run_world(
      3,
      [](World& world) {
        const Counters before = world.counters();
        EXPECT_EQ(before.operations, 0u);
        std::vector<float> values(900), all(2700);
        world.allreduce(values, Op::sum, {.algorithm = "ring"});
        world.allgather(values, all);
        world.barrier();
        world.allreduce_async(values, Op::sum, {.algorithm = "ring"}).wait();
        const Counters counters = world.counters();
        EXPECT_EQ(counters.operations, 4u);
        EXPECT_EQ(counters.tensor_bytes, 2u * 3600 + 10800);
        // A ring sends two thirds of the buffer twice; a gather sends two thirds of the result.
        EXPECT_EQ(counters.sent_bytes, 2u * 4800 + 7200);
        EXPECT_EQ(counters.received_bytes, 2u * 4800 + 7200);
        EXPECT_GT(counters.busy.count(), 0);
        EXPECT_EQ(counters.stalls, 0u);
      },
      Settings::from_environment());
}

TEST(Counters, AreOfAllGroupsAlsoOfThoseThatHaveEnded) {
  run_world(
      2,
      [](World& world) {
        for (int k = 0; k < 3; k++) {
          Group group = world.group({1, 0});
          group.barrier();
        }
        std::vector<float> values(10);
        if (world.rank() == 0)
          world.send(values, 1);
        else
          world.recv(values, 0);
        EXPECT_EQ(world.counters().operations, 4u);
        EXPECT_EQ(world.counters().sent_bytes, world.rank() == 0 ? 40u : 0u) << "a barrier has no elements";
      },
      Settings::from_environment());
}

TEST(Counters, OfOneRankAlone) {
  run_world(1, [](World& world) {
    std::vector<float> values(10);
    world.allreduce(values);
    EXPECT_EQ(world.counters().operations, 1u);
    EXPECT_EQ(world.counters().tensor_bytes, 40u);
    EXPECT_EQ(world.counters().sent_bytes, 0u);
  });
}

TEST(Counters, WaitsAreCountedWithTheirTime) {
  undisturbed(std::chrono::milliseconds(20), [&] {
    Settings settings = Settings::from_environment();
    settings.stall_time = std::chrono::milliseconds(50);
    run_world(
        2,
        [](World& world) {
          if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(200));
          world.barrier();
          const Counters counters = world.counters();
          if (world.rank() == 1) return;
          EXPECT_GT(counters.waits, 0u);
          EXPECT_GT(counters.waited, std::chrono::milliseconds(100));
          EXPECT_LE(counters.waited, counters.busy);
          EXPECT_GT(counters.stalls, 0u);
        },
        settings);
  });
}

TEST(Metrics, APortThatIsTakenIsAWarning) {
  asio::io_context context;
  const asio::ip::tcp::acceptor taken(context, {asio::ip::address_v4::loopback(), 0});
  Settings settings = Settings::from_environment();
  settings.metrics = text("127.0.0.1:", taken.local_endpoint().port());
  testing::internal::CaptureStderr();
  const auto told = told_on_all_ranks(
      1, [](World& world) { world.barrier(), world.finish(); }, settings);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("warning: ANELLO_METRICS='" + settings.metrics + "': cannot listen at"));
  EXPECT_FALSE(told[0].error) << told[0].error->what();
}
// Names of operations may reveal the program's purpose, and all users can read the folder.
constexpr auto kOwnersOnly = std::filesystem::perms::owner_read | std::filesystem::perms::owner_write;

const json& operations(const json& flight, std::size_t group = 0) {
  return flight.at("groups").at(group).at("operations");
}

TEST(Flight, IsWrittenWhenTheProgramAsks) {
  const Scratch scratch;
  run_world(
      2,
      [&](World& world) {
        std::vector<float> values(10);
        world.allreduce(values, Op::max, {.name = "gradients"});
        Group group = world.group({1, 0});
        group.broadcast(values, 1);
        const std::string path = scratch / std::to_string(world.rank());
        world.write_flight(path);
        const json flight = json::parse(bytes_of(path));
        EXPECT_EQ(std::filesystem::status(path).permissions(), kOwnersOnly);
        EXPECT_EQ(flight["rank"], world.rank());
        EXPECT_EQ(flight["size"], 2);
        EXPECT_EQ(operations(flight).size(), 1u);
        EXPECT_EQ(operations(flight)[0]["operation"], "allreduce #0 (max of 10 f32)");
        EXPECT_EQ(operations(flight)[0]["name"], "gradients");
        EXPECT_EQ(operations(flight)[0]["state"], "done");
        EXPECT_EQ(flight["groups"][1]["group"], "group (1, 0)");
        EXPECT_EQ(operations(flight, 1)[0]["operation"], "broadcast #0 (10 f32 from root 1)");
      },
      Settings::from_environment());
}

TEST(Flight, AFileThatCannotBeWrittenIsNamed) {
  run_world(1, [](World& world) {
    try {
      world.write_flight("/dev/null/flight.json");
      ADD_FAILURE();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::file);
      EXPECT_THAT(e.what(), HasSubstr("'/dev/null/flight.json' cannot be written: Not a directory"));
    }
    world.barrier();
  });
}

std::string flight_in(const std::filesystem::path& folder, int rank) {
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().string().ends_with("rank" + std::to_string(rank) + ".json")) return bytes_of(entry.path());
  return {};
}

// When a rank receives the error, its file is there already. The world has two ranks, so both have begun the differing
// operation. With more ranks, a rank could receive the error before it begins the operation.
TEST(Flight, IsWrittenByEveryRankWhenTheWorldFails) {
  const Scratch scratch;
  Settings settings = Settings::from_environment();
  settings.flight_dir = scratch.path();
  testing::internal::CaptureStderr();
  const auto told = told_on_all_ranks(
      2,
      [&](World& world) {
        std::vector<float> values(world.rank() == 1 ? 99 : 100);
        world.barrier();
        try {
          world.allreduce(values, Op::sum, {.name = "gradients"});
        } catch (const Error&) {
          EXPECT_NE(flight_in(scratch.path(), world.rank()), "");
          throw;
        }
      },
      settings);
  const std::string said = testing::internal::GetCapturedStderr();
  for (const Told& each : told) {
    ASSERT_TRUE(each.error);
    const json flight = json::parse(flight_in(scratch.path(), each.rank));
    EXPECT_EQ(flight["why"], each.error->message());
    EXPECT_EQ(operations(flight)[0]["state"], "done");
    EXPECT_EQ(operations(flight)[1]["state"], "begun");
    EXPECT_EQ(operations(flight)[1]["name"], "gradients");
    EXPECT_THAT(std::string(operations(flight)[1]["operation"]),
                HasSubstr(each.rank == 1 ? "sum of 99 f32" : "sum of 100 f32"));
  }
  for (const auto& entry : std::filesystem::directory_iterator(scratch.path()))
    EXPECT_EQ(entry.status().permissions(), kOwnersOnly) << entry.path();
  EXPECT_THAT(
      said, AllOf(HasSubstr("warning: the last operations of the ranks on localhost are in " + scratch.path().string() +
                            "/anello-flight." + std::to_string(geteuid()) + ".threads-"),
                  EndsWith(".rank*.json; read them with: anello flight " + scratch.path().string() + "\n")));
}

TEST(Flight, HasWhatIsQueued) {
  const Scratch scratch;
  Settings settings = Settings::from_environment();
  settings.flight_dir = scratch.path();
  testing::internal::CaptureStderr();
  told_on_all_ranks(
      2,
      [&](World& world) {
        if (world.rank() == 1) {
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
          world.barrier();
          return;
        }
        std::vector<float> a(10), b(20);
        Work first = world.allreduce_async(a, Op::sum, {.name = "first"});
        Work second = world.allreduce_async(b, Op::sum, {.name = "second"});
        second.wait();
      },
      settings);
  testing::internal::GetCapturedStderr();
  const json flight = json::parse(flight_in(scratch.path(), 0));
  ASSERT_EQ(operations(flight).size(), 2u);
  EXPECT_EQ(operations(flight)[0]["state"], "begun");
  EXPECT_EQ(operations(flight)[1]["name"], "second");
  EXPECT_EQ(operations(flight)[1]["state"], "queued");
}

// If the program itself ends the world, it has already reported the reason.
TEST(Flight, IsNotWrittenWhenTheProgramEndsTheWorld) {
  const Scratch scratch;
  Settings settings = Settings::from_environment();
  settings.flight_dir = scratch.path();
  for (const int ranks : {1, 2}) {
    testing::internal::CaptureStderr();
    const auto told = told_on_all_ranks(
        ranks,
        [](World& world) {
          if (world.rank() == 0) world.abort("there is no such data");
          world.barrier();
        },
        settings);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    EXPECT_EQ(told[0].error->code(), ErrorCode::aborted);
    EXPECT_EQ(flight_in(scratch.path(), 0), "");
  }
}

// Each job of the launcher has a different name, so that no job replaces the files of another.
TEST(Flight, OnlyTheLastJobsFilesAreKept) {
  const Scratch scratch;
  const auto name = [](const std::string& user, int job) {
    return text("anello-flight.", user, ".run-", job, ".rank0.json");
  };
  const std::string me = std::to_string(geteuid());
  const auto now = std::filesystem::file_time_type::clock::now();
  for (int job = 1; job <= 20; job++)
    std::filesystem::last_write_time(scratch.put(name(me, job), "{}"), now - std::chrono::hours(job));
  for (const std::string& others : {name("other", 30), "anello-flight." + me + ".notes.txt", std::string("data.json")})
    std::filesystem::last_write_time(scratch.put(others, "{}"), now - std::chrono::hours(100));
  Settings settings = Settings::from_environment();
  settings.flight_dir = scratch.path();
  testing::internal::CaptureStderr();
  told_on_all_ranks(
      2,
      [](World& world) {
        std::vector<float> values(world.rank() == 1 ? 9 : 10);
        world.allreduce(values);
      },
      settings);
  testing::internal::GetCapturedStderr();
  EXPECT_NE(flight_in(scratch.path(), 1), "");
  for (int job = 1; job <= 20; job++) EXPECT_EQ(std::filesystem::exists(scratch / name(me, job)), job <= 9) << job;
  const auto entries = std::filesystem::directory_iterator(scratch.path());
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 9 + 3 + 2);
}

TEST(Flight, AFolderThatIsNoneIsAWarning) {
  Settings settings = Settings::from_environment();
  settings.flight_dir = "/dev/null";
  testing::internal::CaptureStderr();
  const auto told = told_on_all_ranks(
      2,
      [](World& world) {
        std::vector<float> values(world.rank() == 1 ? 9 : 10);
        world.allreduce(values);
      },
      settings);
  EXPECT_EQ(told[0].error->code(), ErrorCode::mismatch);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("the last operations are lost (ANELLO_FLIGHT_DIR): '/dev/null/anello-flight."));
}

}  // namespace
}  // namespace anello::world
