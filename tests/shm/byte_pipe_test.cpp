#include "ring/shm/byte_pipe.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <anello/error.hpp>
#include <array>
#include <vector>

#include "tests/shm/byte_pipe_pair.hpp"

namespace anello::shm {
namespace {

TEST(BytePipe, HoldsAsMuchAsItsMemory) {
  BytePipe pipe;
  EXPECT_TRUE(pipe.reader.peek().empty());
  EXPECT_EQ(pipe.write(130), 130);
  EXPECT_EQ(pipe.write(130), kCapacity - 130);
  EXPECT_EQ(pipe.write(kSlotted + 1), 0);
  EXPECT_EQ(pipe.read(), kCapacity);
  EXPECT_EQ(pipe.write(130, 70), 70) << "no more than asked";
  EXPECT_EQ(pipe.write(50, 20), 20) << "no more than asked";
}

TEST(BytePipe, ShortMessagesComeInSlotsBetweenTheOthers) {
  BytePipe pipe(512);
  const auto in_slot = [&pipe] {
    const std::byte* const at = pipe.reader.peek().data();
    return at >= pipe.state->slots.front().bytes.data() && at <= pipe.state->slots.back().bytes.data();
  };
  EXPECT_EQ(pipe.write(130), 130);
  EXPECT_EQ(pipe.write(kSlotted), kSlotted);
  EXPECT_EQ(pipe.write(131), 131);
  ASSERT_TRUE(pipe.writer.refer({.region = 5, .offset = 0, .bytes = 1000}));
  pipe.writer.publish();
  EXPECT_FALSE(in_slot());
  EXPECT_EQ(pipe.read(), 130);
  EXPECT_TRUE(in_slot());
  pipe.reader.consume(9);
  EXPECT_EQ(pipe.reader.peek().size(), kSlotted - 9);
  EXPECT_EQ(pipe.read(), kSlotted - 9);
  EXPECT_FALSE(in_slot());
  EXPECT_EQ(pipe.read(), 131);
  EXPECT_EQ(pipe.reader.referred()->region, 5);
  pipe.reader.consume(1000);
  EXPECT_EQ(pipe.writer.taken(), 1000);
  EXPECT_EQ(pipe.write(3), 3);
  EXPECT_TRUE(in_slot());
  EXPECT_EQ(pipe.read(), 3);
  EXPECT_TRUE(pipe.reader.peek().empty());
}

TEST(BytePipe, PiecesThatGoTogetherShareASlot) {
  BytePipe pipe;
  const std::vector<std::byte> longest(kShortBytes - 1, std::byte{1}), last(1, std::byte{2}), more(2);
  const auto write = [&pipe](ConstBytes first, ConstBytes second) {
    return pipe.writer.fill_slot(std::array{first, second});
  };
  EXPECT_EQ(write({}, {}) + write(longest, more), 0) << "too short, too long";
  EXPECT_EQ(write(longest, last), kShortBytes);
  const Bytes slot = pipe.reader.peek();
  ASSERT_EQ(slot.size(), kShortBytes) << "visible without publish()";
  EXPECT_EQ(slot[kShortBytes - 2], std::byte{1});
  EXPECT_EQ(slot[kShortBytes - 1], std::byte{2});
  pipe.writer.keep();
  EXPECT_EQ(write(last, last), 0) << "what is kept lies in the pipe";
  pipe.writer.align();
  ASSERT_TRUE(pipe.writer.refer({.region = 5, .offset = 0, .bytes = 10}));
  EXPECT_EQ(write(last, last), 0) << "order is kept";
}

// The test uses pieces of every length, so each byte is once before and once after the end of a cache line.
TEST(BytePipe, ASlotHoldsItsPiecesInTheirOrder) {
  BytePipe pipe;
  std::vector<std::byte> all(kShortBytes);
  for (std::size_t k = 0; k < all.size(); k++) all[k] = std::byte(k * 7 + k / 256);
  const ConstBytes data = all;
  for (std::size_t bytes = 1; bytes <= kShortBytes; bytes += bytes < 200 ? 1 : 61)
    for (const std::size_t first : {std::size_t(0), std::size_t(1), bytes / 2, bytes}) {
      ASSERT_EQ(pipe.writer.fill_slot(std::array{data.first(first), data.subspan(first, bytes - first)}), bytes);
      ASSERT_TRUE(std::ranges::equal(pipe.reader.peek(), data.first(bytes))) << bytes << ", " << first;
      pipe.reader.consume(bytes);
    }
}

TEST(BytePipe, WhatFindsNoFreeSlotIsWrittenBesideThem) {
  BytePipe pipe;
  for (std::size_t k = 0; k < PipeState::kSlots; k++) EXPECT_EQ(pipe.write(1), 1);
  EXPECT_EQ(pipe.write(2), 2);
  for (std::size_t k = 0; k < PipeState::kSlots; k++) EXPECT_EQ(pipe.read(), 1);
  EXPECT_EQ(pipe.reader.peek().data(), pipe.memory.data() + PipeState::kSlots);
  EXPECT_EQ(pipe.read(), 2);
  EXPECT_EQ(pipe.write(4), 4) << "the first slot is free again";
  EXPECT_EQ(pipe.reader.peek().data(), pipe.state->slots[0].bytes.data());
}

// A pipe reaches such high positions after days of constant use. An earlier version of the pipe then waited forever.
TEST(BytePipe, BytesBeyondThePositionsOfSlotsAreWrittenBesideThem) {
  BytePipe pipe;
  constexpr std::size_t kEnd = std::size_t{1} << (64 - PipeState::kLengthBits);
  ASSERT_TRUE(pipe.writer.refer({.region = 5, .offset = 0, .bytes = kEnd - 4}));
  pipe.writer.publish();
  ASSERT_TRUE(pipe.reader.referred());
  pipe.reader.consume(kEnd - 4);
  EXPECT_EQ(pipe.writer.taken(), kEnd - 4);
  EXPECT_EQ(pipe.write(4), 4);
  EXPECT_EQ(pipe.reader.peek().data(), pipe.state->slots[0].bytes.data());
  EXPECT_EQ(pipe.read(), 4);
  EXPECT_EQ(pipe.write(5), 5);
  EXPECT_EQ(pipe.read(), 5);
  EXPECT_EQ(pipe.write(130), 130);
  EXPECT_EQ(pipe.read() + pipe.read(), 130);
}

TEST(BytePipe, ASlotThatClaimsMoreThanItHoldsIsRefused) {
  BytePipe pipe;
  pipe.state->slots[0].head = kShortBytes + 1;
  EXPECT_THROW(pipe.reader.peek(), Error);
}

TEST(BytePipe, AReaderDoesNotSleepWhenASlotIsFull) {
  BytePipe pipe;
  EXPECT_TRUE(pipe.reader.may_sleep());
  EXPECT_EQ(pipe.writer.fill_slot(std::array{ConstBytes(std::array{std::byte{1}})}), 1);
  EXPECT_TRUE(pipe.writer.publish()) << "it must be woken";
  EXPECT_FALSE(pipe.reader.may_sleep());
}

TEST(BytePipe, WhatIsReferredToIsFoundBetweenWhatWasCopied) {
  BytePipe pipe;
  EXPECT_EQ(pipe.write(10), 10);
  ASSERT_TRUE(pipe.writer.refer({.region = 5, .offset = 40, .bytes = 1000}));
  pipe.writer.publish();
  EXPECT_EQ(pipe.write(10), 0) << "order is kept";
  EXPECT_EQ(pipe.reader.referred(), std::nullopt);
  EXPECT_EQ(pipe.read(), 10);
  ASSERT_NE(pipe.reader.referred(), std::nullopt);
  pipe.reader.consume(300);
  EXPECT_EQ(pipe.reader.referred()->region, 5);
  EXPECT_EQ(pipe.reader.referred()->offset, 340);
  EXPECT_EQ(pipe.reader.referred()->bytes, 700);
  EXPECT_TRUE(pipe.reader.peek().empty());
  EXPECT_EQ(pipe.writer.taken(), 300);
  EXPECT_EQ(pipe.writer.taken(), 0);
  EXPECT_EQ(pipe.writer.pending(), 700);
  pipe.reader.consume(700);
  EXPECT_EQ(pipe.reader.referred(), std::nullopt);
  EXPECT_EQ(pipe.writer.taken(), 700);
  EXPECT_EQ(pipe.write(20), 20);
  EXPECT_EQ(pipe.read(), 20);
}

TEST(BytePipe, OnlySoManyReferencesStand) {
  BytePipe pipe;
  for (std::size_t k = 0; k < PipeState::kReferences; k++) ASSERT_TRUE(pipe.writer.refer({k, 0, 10}));
  EXPECT_FALSE(pipe.writer.refer({99, 0, 10}));
  pipe.writer.publish();
  for (std::size_t k = 0; k < 2 * PipeState::kReferences; k++) {
    ASSERT_NE(pipe.reader.referred(), std::nullopt);
    EXPECT_EQ(pipe.reader.referred()->region, k);
    pipe.reader.consume(10);
    ASSERT_TRUE(pipe.writer.refer({k + PipeState::kReferences, 0, 10}));
    pipe.writer.publish();
  }
}

TEST(BytePipe, AWriterSleepsUntilItsReferencesAreTaken) {
  BytePipe pipe;
  pipe.writer.refer({1, 0, 10});
  pipe.writer.publish();
  EXPECT_TRUE(pipe.writer.may_sleep());
  EXPECT_TRUE(pipe.reader.consume(4)) << "it must be woken";
  EXPECT_FALSE(pipe.writer.may_sleep());
  EXPECT_EQ(pipe.writer.taken(), 4);
  EXPECT_TRUE(pipe.writer.may_sleep());
}

TEST(BytePipe, ReferencesToThePastAreRefused) {
  BytePipe pipe;
  EXPECT_EQ(pipe.write(10), 10);
  EXPECT_EQ(pipe.read(), 10);
  pipe.writer.refer({1, 0, 10});
  pipe.writer.publish();
  pipe.state->references[0].begin = 3;
  EXPECT_THROW(pipe.reader.referred(), Error);
}

TEST(BytePipe, ARunEndsWhereTheMemoryDoes) {
  BytePipe pipe;
  pipe.write(150);
  pipe.read();
  EXPECT_EQ(pipe.write(130), 130);
  EXPECT_EQ(pipe.read(), kCapacity - 150);
  EXPECT_EQ(pipe.read(), 130 - (kCapacity - 150));
}

TEST(BytePipe, BothAlignAndNoByteIsLostOrMadeUp) {
  BytePipe pipe;
  EXPECT_EQ(pipe.write(190), 190);
  pipe.writer.align();
  EXPECT_EQ(pipe.write(130), 0) << "the rest of the line is given away";
  EXPECT_EQ(pipe.read(), 190);
  pipe.reader.align();
  EXPECT_TRUE(pipe.reader.peek().empty()) << "the writer has not followed";
  EXPECT_EQ(pipe.write(130), 130);
  EXPECT_EQ(pipe.reader.peek().data(), pipe.memory.data()) << "a line begins here";
  EXPECT_EQ(pipe.read(), 130);
}

TEST(BytePipe, WhoSleepsIsWokenOnce) {
  BytePipe pipe;
  const std::array one = {std::byte{1}};
  const ConstBytes piece = one;
  EXPECT_TRUE(pipe.reader.may_sleep());
  pipe.write(piece, 1);
  EXPECT_TRUE(pipe.writer.publish());
  pipe.write(piece, 1);
  EXPECT_FALSE(pipe.writer.publish());
  EXPECT_FALSE(pipe.reader.may_sleep()) << "there is something";
  EXPECT_FALSE(pipe.reader.consume(1)) << "nobody waits for room";
  pipe.write(1000);
  EXPECT_TRUE(pipe.writer.may_sleep());
  EXPECT_TRUE(pipe.reader.consume(1));
  pipe.reader.consume(kElementBytes);
  EXPECT_FALSE(pipe.writer.may_sleep());
}

TEST(BytePipe, WhatIsKeptComesBackAsTheReaderLeftIt) {
  BytePipe pipe;
  EXPECT_EQ(pipe.write(kSlotted), kSlotted);
  pipe.writer.keep();
  EXPECT_EQ(pipe.write(40), 40) << "not in a slot, although it is short";
  EXPECT_TRUE(pipe.writer.replies().empty()) << "nothing has been consumed";
  EXPECT_TRUE(pipe.writer.may_sleep_until_reply());
  EXPECT_EQ(pipe.read(), kSlotted);
  EXPECT_TRUE(pipe.writer.replies().empty()) << "what was written before is not kept";
  const Bytes come = pipe.reader.peek();
  ASSERT_EQ(come.size(), 40);
  std::ranges::fill(come.first(24), std::byte{9});
  EXPECT_TRUE(pipe.writer.may_sleep_until_reply());
  EXPECT_TRUE(pipe.reader.consume(24)) << "the writer waits for it";
  EXPECT_FALSE(pipe.writer.may_sleep_until_reply());
  const Bytes replied = pipe.writer.replies();
  ASSERT_EQ(replied.size(), 24);
  EXPECT_TRUE(std::ranges::all_of(replied, [](std::byte byte) { return byte == std::byte{9}; }));
  pipe.writer.take(24);
  EXPECT_TRUE(pipe.writer.replies().empty());
}

TEST(BytePipe, WhatIsKeptTakesRoomUntilItIsTaken) {
  BytePipe pipe;
  pipe.writer.keep();
  EXPECT_EQ(pipe.write(1000), kCapacity);
  EXPECT_EQ(pipe.read(), kCapacity);
  EXPECT_EQ(pipe.write(8), 0) << "the replies lie there";
  EXPECT_TRUE(pipe.writer.may_sleep());
  EXPECT_EQ(pipe.writer.replies().size(), kCapacity);
  pipe.writer.take(64);
  EXPECT_EQ(pipe.write(1000), 64);
  EXPECT_EQ(pipe.writer.replies().size(), kCapacity - 64) << "up to the end of the memory";
  pipe.writer.take(kCapacity - 64);
  EXPECT_EQ(pipe.read(), 64);
  EXPECT_EQ(pipe.writer.replies().size(), 64);
  pipe.writer.take(64);
  pipe.writer.align();
  EXPECT_EQ(pipe.write(1000), kCapacity);
  EXPECT_EQ(pipe.read() + pipe.read(), kCapacity);
  EXPECT_EQ(pipe.write(1000), kCapacity) << "nothing is kept any more";
}

// The reader must report skipped bytes as read, too. An earlier version did not report them, and then the smallest pipe
// had no room for the next operation.
TEST(BytePipe, WhatIsSkippedTakesNoRoom) {
  BytePipe pipe(kLineBytes);
  EXPECT_EQ(pipe.write(200, 4), 4);
  pipe.writer.align();
  EXPECT_EQ(pipe.write(200), 0) << "what lies before has not been read";
  EXPECT_EQ(pipe.read(), 4);
  EXPECT_EQ(pipe.write(200), kLineBytes);
  pipe.reader.align();
  EXPECT_EQ(pipe.read(), kLineBytes);
}

TEST(BytePipe, AWriterThatClaimsTheImpossibleIsRefused) {
  BytePipe pipe;
  pipe.state->written = kCapacity + kLineBytes;
  EXPECT_THROW(pipe.reader.peek(), Error);
}

}  // namespace
}  // namespace anello::shm
