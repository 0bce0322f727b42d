// `anello flight` reads the files of all ranks, and finds the ranks that did not come to an operation.
#include "rendezvous/launch/flight/flight.hpp"

#include <gmock/gmock.h>

#include <anello/error.hpp>

#include "ring/trace/flight_file.hpp"
#include "tests/launch/launched.hpp"
#include "tests/support/records.hpp"
#include "tests/support/scratch.hpp"

namespace anello::launch {
namespace {

using trace::History;
using trace::Record;
using trace::Ticks;

Record record(std::uint64_t sequence, Kind kind, Ticks begun, Ticks ended = 0, std::string_view name = "") {
  Signature signature{.generation = 1, .sequence = sequence, .count = 100, .kind = kind, .dtype = DType::f32};
  Record made = trace::record_of(signature, name, begun, begun);
  made.ended = ended;
  return made;
}

// A tick is a microsecond; the file is written at tick 10,000,000.
std::string flight_of(int rank, std::vector<History> groups, std::uint64_t incarnation = 7, std::int64_t written = 0) {
  const trace::TickClock::Scale microseconds({0, 0}, {1, 1000});
  const std::string host = "h" + std::to_string(rank);
  const trace::FlightHead head{.job = "a job",
                               .host = host,
                               .why = "enough",
                               .incarnation = incarnation,
                               .rank = rank,
                               .size = 4,
                               .unix_us = 1'000'000'000 + written,
                               .now = {10'000'000, 10'000'000'000}};
  return flight_json(head, microseconds, groups);
}

History world_with(std::vector<Record> records) {
  return {0, "the world", {0, 1, 2, 3}, std::move(records)};
}

std::vector<Flight> parsed(const std::vector<std::string>& files) {
  std::vector<Flight> flights;
  for (const std::string& file : files) flights.push_back(parse_flight(file));
  return flights;
}

TEST(FlightReader, SaysWhoNeverCameAndWhoWaits) {
  const Record before = record(6, Kind::barrier, 1'000'000, 2'000'000);
  const Record waits = record(7, Kind::allreduce, 4'000'000, 0, "gradients");
  const std::string said =
      explain(parsed({flight_of(0, {world_with({before, waits})}), flight_of(1, {world_with({before})}),
                      flight_of(2, {world_with({before, waits})})}));
  EXPECT_EQ(said,
            "job a job, 4 ranks: enough\n"
            "no file from rank 3 in this folder: its process was killed, or the file is on its host\n"
            "\n"
            "not done:\n"
            "the world: allreduce #7 (sum of 100 f32) 'gradients'\n"
            "  rank 0 on h0: waiting since 6 s before the end\n"
            "  rank 1 on h1: NEVER CAME; its last call in this group is barrier #6, done 8 s before the end\n"
            "  rank 2 on h2: waiting since 6 s before the end\n"
            "  rank 3: no file\n"
            "\n"
            "last operation of each rank:\n"
            "  rank 0 on h0: allreduce #7 (sum of 100 f32) 'gradients' in the world, begun 6 s before the end\n"
            "  rank 1 on h1: barrier #6 in the world, done 8 s before the end\n"
            "  rank 2 on h2: allreduce #7 (sum of 100 f32) 'gradients' in the world, begun 6 s before the end\n");
}

TEST(FlightReader, SaysWhoCallsSomethingElseAndWhoHasNotMadeTheGroup) {
  const History pair{31, "group (0, 1, 2)", {0, 1, 2}, {record(0, Kind::barrier, 9'000'000)}};
  History other = pair;
  other.records = {record(0, Kind::allreduce, 9'500'000)};
  const std::string said = explain(parsed({flight_of(0, {world_with({}), pair}), flight_of(1, {world_with({}), other}),
                                           flight_of(2, {world_with({})}), flight_of(3, {world_with({})})}));
  EXPECT_THAT(said,
              ::testing::HasSubstr(
                  "group (0, 1, 2): barrier #0\n"
                  "  rank 0 on h0: waiting since 1 s before the end\n"
                  "  rank 1 on h1: calls allreduce #0 (sum of 100 f32) INSTEAD, waiting since 0.5 s before the end\n"
                  "  rank 2 on h2: NEVER CAME; it has not made this group, or has left it\n"));
  EXPECT_THAT(said, ::testing::HasSubstr("  rank 3 on h3: nothing\n"));
  EXPECT_FALSE(contains(said, "the world: "));
}

TEST(FlightReader, TakesTheFilesOfTheNewestWorldAndLeavesOutWhatIsNone) {
  const Scratch scratch;
  scratch.put("anello-flight.a_job.rank0.json", flight_of(0, {}, 8, 5));
  scratch.put("anello-flight.a_job.rank1.json", flight_of(1, {}, 7, 4));  // of an earlier run
  scratch.put("anello-flight.a_job.rank2.json", flight_of(2, {}, 8, 6));
  scratch.put("anello-flight.a_job.rank3.json", "{}");
  scratch.put("other.json", "{}");
  std::vector<std::string> skipped;
  const std::vector<Flight> flights = read_flights(scratch.path(), "", skipped);
  ASSERT_EQ(flights.size(), 2u);
  EXPECT_EQ(flights[0].rank, 0);
  EXPECT_EQ(flights[1].rank, 2);
  ASSERT_EQ(skipped.size(), 1u);
  EXPECT_THAT(skipped[0], ::testing::HasSubstr("rank3.json: not a flight recorder's file"));
  EXPECT_THROW(read_flights(scratch.path(), "another", skipped), Error);
  EXPECT_THROW(read_flights(scratch.path() / "nowhere", "", skipped), Error);
}

TEST(FlightReader, ReadsWhatAJobHasLeft) {
  const Scratch scratch;
  const std::string folder = scratch.path().string();
  testing::run(anello({"run", "-n", "3", "--", WAITER, "gone"}), {.environment = {"ANELLO_FLIGHT_DIR=" + folder}});
  const Outcome outcome = testing::run(anello({"flight", folder}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "3 ranks: rank 0 on ")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "the world: barrier #0\n  rank 0")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, ": waiting since ")) << outcome.out;
  const Outcome none = testing::run(anello({"flight", "/dev/null"}));
  EXPECT_EQ(none.code, 1);
  EXPECT_TRUE(contains(none.err, "'/dev/null' cannot be read: Not a directory")) << none.err;
}

}  // namespace
}  // namespace anello::launch
