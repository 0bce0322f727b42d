#include "rendezvous/launch/output/last_lines.hpp"

#include <gmock/gmock.h>

namespace anello::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(LastLines, AreTheTenNewest) {
  LastLines last;
  EXPECT_THAT(last.lines(), IsEmpty());
  for (int i = 0; i < 15; i++) last.feed("line " + std::to_string(i) + "\n");
  EXPECT_EQ(last.lines().size(), 10u);
  EXPECT_EQ(last.lines().front(), "line 5");
  last.feed("not ended");
  EXPECT_EQ(last.lines().size(), 10u);
  EXPECT_EQ(last.lines().front(), "line 6");
  EXPECT_EQ(last.lines().back(), "not ended");
}

TEST(LastLines, ComeInPieces) {
  LastLines last;
  for (const char* piece : {"on", "e\ntw", "", "o", "\n\nfour"}) last.feed(piece);
  EXPECT_THAT(last.lines(), ElementsAre("one", "two", "", "four"));
}

TEST(LastLines, AProgressBarIsItsLastState) {
  LastLines last;
  for (const char* piece : {"10%\r", "20%\r30", "%\r"}) last.feed(piece);
  EXPECT_THAT(last.lines(), ElementsAre("30%"));
  last.feed(std::string(5000, 'x') + "\r40%\ndone");
  EXPECT_THAT(last.lines(), ElementsAre("40%", "done"));
}

TEST(LastLines, AreBounded) {
  LastLines last;
  for (int i = 0; i < 100; i++) last.feed(std::string(1000, 'x'));
  EXPECT_THAT(last.lines(), ElementsAre(std::string(LastLines::kMaxLineBytes, 'x')));
}

}  // namespace
}  // namespace anello::launch
