#include "ring/trace/flight_recorder.hpp"

#include <gmock/gmock.h>

#include "ring/trace/flight_recorders.hpp"

namespace anello::trace {
namespace {

using testing::ElementsAre;

Signature operation(std::uint64_t sequence, Kind kind = Kind::allreduce) {
  return {.generation = 1, .sequence = sequence, .count = 10, .kind = kind};
}

std::vector<std::uint64_t> sequences(const std::vector<Record>& records) {
  std::vector<std::uint64_t> all;
  for (const Record& record : records) all.push_back(record.signature.sequence);
  return all;
}

TEST(FlightRecorder, KnowsWhatIsDoneWhatHasBegunAndWhatIsQueued) {
  FlightRecorder recorder;
  EXPECT_TRUE(recorder.records().empty());
  const Ticks before = ticks();
  recorder.begin(operation(0), "first", before);
  recorder.end(40, 80, 60);
  recorder.queue(operation(2), "third", ticks());
  recorder.begin(operation(1), "second", ticks());
  const std::vector<Record> records = recorder.records();
  ASSERT_THAT(sequences(records), ElementsAre(0, 1, 2));
  const Record &done = records[0], &begun = records[1], &queued = records[2];
  EXPECT_EQ(done.title(), "first");
  EXPECT_EQ(done.queued, before);
  EXPECT_LE(done.begun, done.ended);
  EXPECT_GT(begun.begun, 0u);
  EXPECT_EQ(begun.ended, 0u);
  EXPECT_EQ(queued.title(), "third");
  EXPECT_EQ(queued.begun, 0u);
}

TEST(FlightRecorder, TheNewestIsWholeAsSoonAsItIsDone) {
  FlightRecorder recorder;
  recorder.begin(operation(0), "only", ticks());
  recorder.end(0, 0, 0);
  EXPECT_GE(recorder.newest().ended, recorder.newest().begun);
  EXPECT_GT(recorder.records().at(0).ended, 0u);
}

TEST(FlightRecorder, ForgetsTheOldest) {
  FlightRecorder recorder;
  constexpr std::uint64_t kMany = 10'000, kKept = 4096, kQueued = 1024;
  for (std::uint64_t k = 0; k < kMany; k++) {
    recorder.begin(operation(k), "", ticks());
    recorder.end(0, 0, 0);
  }
  for (std::uint64_t k = kMany; k < 2 * kMany; k++) recorder.queue(operation(k), "", ticks());
  const auto all = sequences(recorder.records());
  ASSERT_EQ(all.size(), kKept + kQueued);
  EXPECT_EQ(all.front(), kMany - kKept);
  EXPECT_EQ(all[kKept], 2 * kMany - kQueued) << "of what is queued the last";
  EXPECT_EQ(all.back(), 2 * kMany - 1);
}

TEST(FlightRecorders, NameTheirGroupsAndKeepTheCountsOfThoseThatHaveEnded) {
  FlightRecorders recorders;
  for (const std::uint64_t group : {1, 2}) {
    const auto recorder = std::make_shared<FlightRecorder>();
    recorders.add(group, group == 1 ? "one" : "two", {0, int(group)}, recorder);
    recorder->begin(operation(0, Kind::broadcast), "", ticks());
    recorder->end(100 * group, 10, 20);
    recorder->tally.slept(5);
  }
  const std::vector<History> histories = recorders.histories();
  ASSERT_EQ(histories.size(), 2u);
  EXPECT_EQ(histories[1].group, 2u);
  EXPECT_EQ(histories[1].name, "two");
  EXPECT_EQ(histories[1].members, (std::vector<int>{0, 2}));
  EXPECT_EQ(histories[1].records.size(), 1u);
  EXPECT_TRUE(recorders.find(1));
  recorders.remove(1);
  recorders.remove(1);
  EXPECT_FALSE(recorders.find(1));
  const Totals totals = recorders.totals();
  EXPECT_EQ(totals.kinds[std::size_t(Kind::broadcast)].operations, 2u);
  EXPECT_EQ(totals.kinds[std::size_t(Kind::broadcast)].bytes, 300u);
  EXPECT_EQ(totals.kinds[std::size_t(Kind::allreduce)].operations, 0u);
  EXPECT_EQ(totals.sent_bytes, 20u);
  EXPECT_EQ(totals.received_bytes, 40u);
  EXPECT_EQ(totals.sleeps, 2u);
  EXPECT_EQ(totals.slept, 10u);
}

}  // namespace
}  // namespace anello::trace
