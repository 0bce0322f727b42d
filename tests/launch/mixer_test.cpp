#include "rendezvous/launch/output/mixer.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <sstream>

namespace anello::launch {
namespace {

using std::chrono::milliseconds;
using namespace std::string_literals;

class MixerTest : public ::testing::Test {
 protected:
  Mixer::TimePoint now_{};
  static std::string take(Mixer& mixer) { return std::exchange(mixer.out(), {}); }
};

const TerminalStyle kTerminal{.terminal = true, .colour = false, .columns = 40};

TEST_F(MixerTest, LinesAreWholeAndKeepTheirOrder) {
  Mixer mixer({});
  const int zero = mixer.add_stream(0), one = mixer.add_stream(1);
  mixer.feed(zero, "al", now_);
  mixer.feed(one, "eins\nzw", now_);
  mixer.feed(zero, "pha\n\nbeta", now_);
  mixer.feed(one, "ei\n", now_);
  EXPECT_EQ(take(mixer), "[1] eins\n[0] alpha\n[0] \n[1] zwei\n");
  mixer.end(zero, now_);
  mixer.end(one, now_);
  EXPECT_EQ(take(mixer), "[0] beta\n");
}

TEST_F(MixerTest, BytesOtherThanNewlinesPassUnchangedWhereThereIsNoTerminal) {
  Mixer mixer({});
  const int stream = mixer.add_stream(3);
  const std::string odd = "50%\r60%\r\0\xff\033[2K\t"s;
  mixer.feed(stream, odd + "\r\n", now_);
  EXPECT_EQ(take(mixer), "[3] " + odd + "\r\n");
}

TEST_F(MixerTest, LinesMayHaveATimeAndNoLabel) {
  const auto seconds = [](Mixer::TimePoint when) {
    return std::to_string(when.time_since_epoch() / std::chrono::seconds(1)) + "s ";
  };
  Mixer timed({}, {.timestamp = seconds}), bare({}, {.rank_labels = false});
  for (Mixer* mixer : {&timed, &bare}) {
    const int zero = mixer->add_stream(0), own = mixer->add_stream(-1);
    mixer->feed(zero, "al", Mixer::TimePoint(std::chrono::seconds(1)));
    mixer->feed(zero, "pha\nbeta\n", Mixer::TimePoint(std::chrono::seconds(2)));
    mixer->feed(own, "own\n", Mixer::TimePoint(std::chrono::seconds(3)));
  }
  EXPECT_EQ(take(timed), "2s [0] alpha\n2s [0] beta\n3s own\n");
  EXPECT_EQ(take(bare), "alpha\nbeta\nown\n");
}

TEST_F(MixerTest, WithoutLabelsTheOutputEndsAsThatOfTheProgram) {
  for (const std::size_t length : {1, 70000}) {
    Mixer bare({}, {.rank_labels = false});
    const int zero = bare.add_stream(0), one = bare.add_stream(1);
    const std::string line(length, 'x');
    bare.feed(zero, line, now_);
    bare.feed(one, "a", now_);
    bare.end(zero, now_);
    EXPECT_EQ(take(bare), line);
    bare.feed(one, "b\nc", now_);
    EXPECT_EQ(take(bare), "\nab\n") << "lines of two ranks stay apart";
    bare.end(one, now_);
    EXPECT_EQ(take(bare), "c");
  }
}

TEST_F(MixerTest, AHugeLineHasTheFloor) {
  Mixer mixer({});
  const int huge = mixer.add_stream(0), other = mixer.add_stream(1), own = mixer.add_stream(-1);
  const std::string piece(100000, 'x');
  mixer.feed(huge, piece, now_);
  mixer.feed(other, "waits\nhalf", now_);
  mixer.feed(own, "anello: waits\n", now_);
  mixer.feed(huge, piece + "\nnext\n", now_);
  EXPECT_EQ(take(mixer), "[0] " + piece + piece + "\n[0] next\n[1] waits\nanello: waits\n");
  mixer.end(other, now_);
  EXPECT_EQ(take(mixer), "[1] half\n");
}

TEST_F(MixerTest, MemoryIsBoundedWhileOneHasTheFloor) {
  Mixer mixer({});
  const int huge = mixer.add_stream(0), other = mixer.add_stream(1);
  mixer.feed(huge, std::string(70000, 'x'), now_);
  EXPECT_LT(mixer.out().capacity(), 200000u);
  mixer.feed(other, std::string(65536, 'y'), now_);
  EXPECT_FALSE(mixer.accepts(other));
  EXPECT_TRUE(mixer.accepts(huge));
  mixer.feed(huge, std::string(300000, 'x'), now_);
  EXPECT_FALSE(mixer.accepts(huge)) << "the reader must take some first";
}

TEST_F(MixerTest, AHugeLineIsNotBrokenBecauseTheReaderIsSlow) {
  Mixer mixer({});
  const int huge = mixer.add_stream(0), other = mixer.add_stream(1);
  const std::string piece(300000, 'x');
  mixer.feed(huge, piece, now_);
  mixer.feed(other, "waits\n", now_);
  mixer.tick(now_);
  ASSERT_FALSE(mixer.accepts(huge));
  std::string all = take(mixer);
  mixer.tick(now_ + milliseconds(5000));
  mixer.tick(now_ + milliseconds(5999));
  EXPECT_TRUE(mixer.accepts(huge));
  mixer.feed(huge, "end\n", now_ + milliseconds(5999));
  EXPECT_EQ(all + take(mixer), "[0] " + piece + "end\n[1] waits\n");
}

TEST_F(MixerTest, AHugeLineThatStallsIsBrokenWhenOthersWait) {
  Mixer mixer({});
  const int huge = mixer.add_stream(0), other = mixer.add_stream(1);
  mixer.feed(huge, std::string(70000, 'x'), now_);
  EXPECT_FALSE(mixer.next_tick());
  mixer.feed(other, "waits\n", now_);
  ASSERT_TRUE(mixer.next_tick());
  EXPECT_EQ(*mixer.next_tick(), now_ + milliseconds(1000));
  take(mixer);
  mixer.tick(now_ + milliseconds(999));
  EXPECT_EQ(take(mixer), "");
  mixer.tick(now_ + milliseconds(1000));
  EXPECT_EQ(take(mixer), "\n[1] waits\n");
  mixer.feed(huge, "rest\n", now_);
  EXPECT_EQ(take(mixer), "[0] rest\n");
}

TEST_F(MixerTest, AHugeLineEndsWithItsStream) {
  Mixer mixer({});
  const int huge = mixer.add_stream(0), other = mixer.add_stream(1);
  mixer.feed(huge, std::string(70000, 'x'), now_);
  mixer.feed(other, "waits", now_);
  mixer.end(other, now_);
  mixer.end(huge, now_);
  EXPECT_EQ(take(mixer), "[0] " + std::string(70000, 'x') + "\n[1] waits\n");
}

TEST_F(MixerTest, AnEndlessProgressBarIsBrokenAtItsReturns) {
  Mixer mixer({});
  const int bar = mixer.add_stream(0), other = mixer.add_stream(1);
  for (int i = 0; i < 20000; i++) mixer.feed(bar, "\r12345", now_);
  mixer.feed(other, "goes on\n", now_);
  std::istringstream out(take(mixer));
  std::string line;
  std::getline(out, line);
  EXPECT_TRUE(line.starts_with("[0] \r12345")) << line.substr(0, 20);
  EXPECT_TRUE(line.ends_with("\r12345")) << line.substr(line.size() - 20);
  std::getline(out, line);
  EXPECT_EQ(line, "[1] goes on");
}

// Returns the text that a terminal would show after `bytes`: all finished lines, and the last line.
std::string on_screen(const std::string& bytes) {
  std::string done, line;
  std::size_t column = 0;
  for (std::size_t i = 0; i < bytes.size(); i++) {
    if (bytes[i] == '\n') {
      done += line + "\n";
      line.clear();
      column = 0;
    } else if (bytes[i] == '\r') {
      column = 0;
    } else if (bytes.compare(i, 3, "\033[K") == 0) {
      line.resize(column);
      i += 2;
    } else {
      line.resize(std::max(line.size(), column + 1));
      line[column++] = bytes[i];
    }
  }
  return done + line;
}

TEST_F(MixerTest, TheTailIsDrawnAtOnceAndStaysBelowOtherLines) {
  Mixer mixer(kTerminal);
  const int zero = mixer.add_stream(0), one = mixer.add_stream(1);
  std::string screen;
  mixer.feed(zero, "\r[#   ] 25%", now_);
  EXPECT_EQ(on_screen(screen += take(mixer)), "[0] [#   ] 25%");
  mixer.feed(one, "a line\npart", now_);
  EXPECT_EQ(on_screen(screen += take(mixer)), "[1] a line\n[0] [#   ] 25%");
  mixer.feed(zero, "\r[##  ] 50%\r", now_);
  EXPECT_EQ(on_screen(screen += take(mixer)), "[1] a line\n[0] [##  ] 50%");
  mixer.feed(zero, "\rok", now_);
  EXPECT_EQ(on_screen(screen += take(mixer)), "[1] a line\n[0] ok");
  mixer.feed(one, "ial\n", now_);
  mixer.feed(zero, "\rdone\nnext", now_);
  EXPECT_EQ(on_screen(screen += take(mixer)), "[1] a line\n[1] partial\n[0] done\n[0] next");
  mixer.end(zero, now_);
  EXPECT_EQ(on_screen(screen += take(mixer)), "[1] a line\n[1] partial\n[0] done\n[0] next\n");
}

TEST_F(MixerTest, APromptIsShownOnceAndGrows) {
  Mixer mixer(kTerminal);
  const int zero = mixer.add_stream(0);
  mixer.feed(zero, "name", now_);
  mixer.feed(zero, "? ", now_);
  EXPECT_EQ(take(mixer), "[0] name? ");
}

TEST_F(MixerTest, AnAnsweredPromptIsALine) {
  Mixer mixer(kTerminal);
  const int zero = mixer.add_stream(0);
  mixer.feed(zero, "name? ", now_);
  mixer.line_typed();
  mixer.feed(zero, "hello\n", now_);
  EXPECT_EQ(take(mixer), "[0] name? [0] hello\n") << "with the terminal's echo in between";
}

TEST_F(MixerTest, OnATerminalOnlyTheLastStateOfALineIsShown) {
  Mixer mixer(kTerminal);
  const int one = mixer.add_stream(1);
  mixer.feed(one, "\r 10%\r 20%\r100%\nwindows\r\n", now_);
  EXPECT_EQ(take(mixer), "[1] 100%\n[1] windows\r\n");
}

TEST_F(MixerTest, ATailWiderThanTheScreenIsALongLine) {
  Mixer mixer(kTerminal);
  const int zero = mixer.add_stream(0), one = mixer.add_stream(1);
  mixer.feed(zero, std::string(30, '.'), now_);
  mixer.feed(zero, std::string(30, '.'), now_);
  mixer.feed(one, "waits\n", now_);
  mixer.feed(zero, ".\n", now_);
  EXPECT_EQ(take(mixer), "[0] " + std::string(61, '.') + "\n[1] waits\n");
}

TEST_F(MixerTest, LabelsAreColouredWhereThatIsWanted) {
  Mixer mixer({.terminal = true, .colour = true, .columns = 40});
  const int one = mixer.add_stream(1);
  mixer.feed(one, "x\n", now_);
  EXPECT_EQ(take(mixer), "\033[32m[1]\033[0m x\n");
}

// For pieces of any size in any order, the lines of every stream arrive complete, once and in order.
TEST_F(MixerTest, AnyPiecesGiveTheSameLines) {
  for (unsigned seed = 1; seed <= 200; seed++) {
    std::mt19937 random(seed);
    const auto below = [&](std::size_t limit) {
      return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random);
    };
    Mixer mixer({.terminal = false, .colour = false, .columns = 80});
    std::vector<std::string> sent(3), got(3);
    std::vector<std::size_t> at(3);
    for (std::string& text : sent)
      for (std::size_t line = 0; line < 20; line++)
        text += std::string(below(line == 7 ? 200000 : 300), char('a' + below(26))) + "\n";
    std::string out;
    for (int rank = 0; rank < 3; rank++) mixer.add_stream(rank);
    for (std::size_t left = 3; left > 0;) {
      const std::size_t rank = below(3), size = 1 + below(30000);
      if (at[rank] == sent[rank].size() || !mixer.accepts(int(rank))) continue;
      mixer.feed(int(rank), std::string_view(sent[rank]).substr(at[rank], size), now_);
      at[rank] = std::min(sent[rank].size(), at[rank] + size);
      if (at[rank] == sent[rank].size()) mixer.end(int(rank), now_), left--;
      out += take(mixer);
    }
    std::istringstream lines(out);
    for (std::string line; std::getline(lines, line);) {
      ASSERT_TRUE(line.size() >= 4 && line[0] == '[' && line[1] >= '0' && line[1] <= '2') << "seed " << seed;
      got[std::size_t(line[1] - '0')] += line.substr(4) + "\n";
    }
    ASSERT_EQ(got, sent) << "seed " << seed;
  }
}

}  // namespace
}  // namespace anello::launch
