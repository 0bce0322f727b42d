#include "ring/trace/chrome.hpp"

#include <gtest/gtest.h>

#include "tests/support/records.hpp"
#include "tests/support/timeline_file.hpp"

namespace anello::trace {
namespace {

const TickClock::Scale kMicroseconds({0, 0}, {1, 1000});  // a tick is one

// One allreduce between rank 1 and rank 0: queued at tick 10, carried out from tick 20 to tick 40.
Recording recording() {
  Recording all;
  all.groups[0] = {"the world", {0, 1}};
  const Signature signature{.generation = 1, .sequence = 4, .count = 100, .kind = Kind::allreduce};
  all.operations.push_back({record_of(signature, "\"loss\"", 10, 20), 0, 3});
  all.operations.back().record.ended = 40;
  all.spans = {{22, 25, 400, 0, 0, Span::What::send},
               {26, 30, 0, -1, 0, Span::What::sleep},
               {30, 33, 400, 0, 1, Span::What::reduce}};
  all.phases.push_back({"backward", {}, 1, 9});
  return all;
}

TimelineFile file_of(const Recording& all, const Traced& traced) {
  std::string text = chrome_head();
  chrome_events(all, traced, kMicroseconds, true, [&](std::string_view piece) { text += piece; });
  return TimelineFile(nlohmann::json::parse(text + chrome_tail()));
}

TEST(Chrome, HasARowForEverythingThatHappened) {
  const ClockOffset behind{0, 1'000'000, 2'500};
  const TimelineFile file = file_of(recording(), {1, "here", 1'000'000, {behind, behind}});
  file.check();
  EXPECT_EQ(file.ranks, std::vector<int>{1});
  const auto operation = file.on_row(1, "the world").at(0);
  EXPECT_EQ(operation["name"], "\"loss\"");
  EXPECT_EQ(operation["args"]["operation"], "allreduce #4 (sum of 100 u8)");
  EXPECT_EQ(operation["ts"], 20.0) << "on rank 0's clock, from the timeline's beginning";
  EXPECT_EQ(operation["dur"], 20.0);
  EXPECT_EQ(file.on_row(1, "to rank 0").at(0)["args"]["bytes"], 400);
  const auto reduced = file.on_row(1, "from rank 0").at(0);
  EXPECT_EQ(reduced["name"], "reduce");
  EXPECT_EQ(reduced["args"]["round"], 1);
  EXPECT_EQ(reduced["dur"], 3.0);
  EXPECT_EQ(file.on_row(1, "local work").at(0)["name"], "sleep");
  EXPECT_EQ(file.on_row(1, "program").at(0)["name"], "backward");
}

TEST(Chrome, SaysHowWellTheClockIsKnownAndWhatIsMissing) {
  Recording all = recording();
  all.left_out = 7;
  const TimelineFile file = file_of(all, {2, "here", 0, {{0, 0, 100}, {0, 0, 2500}}});
  std::string everything;
  for (const auto& event : file.events) everything += event.dump();
  EXPECT_NE(everything.find("clock within 2.500 us"), std::string::npos);
  EXPECT_NE(everything.find("7 operations and phases are left out"), std::string::npos);
}

TEST(Chrome, GoesOutInPieces) {
  Recording all = recording();
  for (int k = 0; k < 5000; k++) all.operations.push_back(all.operations[0]);
  std::size_t pieces = 0, most = 0;
  chrome_events(all, {}, kMicroseconds, false, [&](std::string_view piece) {
    EXPECT_TRUE(piece.starts_with(",\n")) << "others were before";
    pieces++;
    most = std::max(most, piece.size());
  });
  EXPECT_GT(pieces, 10u);
  EXPECT_LT(most, 100'000u);
}

}  // namespace
}  // namespace anello::trace
