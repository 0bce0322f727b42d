#include "ring/shm/byte_pipe.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <anello/error.hpp>
#include <array>
#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "tests/support/random.hpp"

namespace anello::shm {
namespace {

constexpr std::size_t kCapacity = 192;
constexpr std::size_t kSlotted = 120;  // the most that tests of both ways put into a slot, unless they say otherwise

struct BytePipe {
  explicit BytePipe(std::size_t capacity = kCapacity) : memory(capacity) {}
  std::unique_ptr<PipeState> state = std::make_unique<PipeState>();
  std::vector<std::byte> memory;
  PipeWriter writer{*state, memory};
  PipeReader reader{*state, memory};

  std::size_t slotted = kSlotted;

  // In a slot, if all of it may go and is that short.
  std::size_t write(ConstBytes data, std::size_t most) {
    const std::size_t written = data.size() <= std::min(most, slotted) ? writer.fill_slot(std::array{data}) : 0;
    return written > 0 ? written : writer.write(data, most);
  }
  std::size_t write(std::size_t bytes, std::size_t most = 1000) {
    const std::size_t written = write(std::vector<std::byte>(bytes, std::byte{7}), most);
    if (written > 0) writer.publish();
    return written;
  }
  std::size_t read() {
    const std::size_t bytes = reader.peek().size();
    reader.consume(bytes);
    return bytes;
  }
};

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

// Pieces of every length, so that each byte lies on either side of a cache line's end.
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

// The reader says what it has read, not what it has skipped: the smallest pipe had no room for the next operation.
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

// As an operation does: messages of whole elements, the writer ahead of the reader by some of them, both aligned where
// one begins; the reader takes whole elements only. Every byte has its value, and all of them come.
void carry_at_random(std::size_t capacity, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&random](std::size_t end) { return std::size_t(random() % end); };
  struct Message {
    std::size_t element, bytes;
    bool refer;
  };
  BytePipe pipe(capacity);
  if (below(2) == 0) pipe.slotted = kShortBytes;
  std::vector<Message> messages(300);
  for (Message& message : messages) {
    const std::size_t element = std::size_t{1} << below(4);
    message = {element, element * (1 + below(below(2) == 0 ? 8 : 80)), below(8) == 0};
  }
  const auto value = [](std::size_t m, std::size_t k) { return std::byte(m * 131 + k * 7 + k / 256); };
  std::size_t sending = 0, sent = 0, receiving = 0, received = 0, referred = 0;
  for (int turns = 0; receiving < messages.size(); turns++) {
    ASSERT_LT(turns, 200000) << "stuck: message " << receiving << ", byte " << received;
    if (below(2) == 0 && sending < messages.size()) {
      const Message& message = messages[sending];
      if (sent == 0 && referred == 0) pipe.writer.align();
      if (referred > 0) {
        const std::size_t taken = pipe.writer.taken();
        referred -= taken;
        sent += taken;
      } else {
        const std::size_t left = message.bytes - sent;
        std::vector<std::byte> data(std::min(left, message.element * (1 + below(40))));
        for (std::size_t k = 0; k < data.size(); k++) data[k] = value(sending, sent + k);
        const std::size_t most = below(4) == 0 ? 8 * (1 + below(8)) : 1000;
        std::size_t written = 0;
        if (below(3) > 0) {
          written = pipe.write(data, most);
        } else {
          const Bytes room = pipe.writer.room(data.size());
          written = std::min(room.size(), data.size()) / message.element * message.element;
          std::copy_n(data.begin(), written, room.begin());
          if (written > 0) pipe.writer.put(written);
        }
        sent += written;
        if (message.refer && sent < message.bytes && pipe.writer.refer({sending, sent, message.bytes - sent}))
          referred = message.bytes - sent;
        if (written > 0 || referred > 0) pipe.writer.publish();
      }
      if (sent == message.bytes) sending++, sent = 0;
    } else {
      const Message& message = messages[receiving];
      if (received == 0) pipe.reader.align();
      const ConstBytes run = pipe.reader.peek();
      std::size_t some = std::min(run.size(), message.bytes - received);
      if (some > 0) {
        some = some / message.element * message.element;
        if (below(2) == 0) some = std::min(some, message.element * (1 + below(10)));
        for (std::size_t k = 0; k < some; k++) ASSERT_EQ(run[k], value(receiving, received + k)) << receiving;
      } else if (const auto place = pipe.reader.referred()) {
        ASSERT_EQ(*place, (Place{receiving, received, message.bytes - received}));
        some = message.element * (1 + below(place->bytes / message.element));
      }
      if (some > 0) pipe.reader.consume(some);
      received += some;
      if (received == message.bytes) receiving++, received = 0;
    }
  }
}

TEST(BytePipe, CarriesAnyMessagesAtAnyPace) {
  for (const std::size_t capacity : {64, 192, 1024})
    for (const std::uint64_t seed : seeds(50)) {
      SCOPED_TRACE(text("capacity ", capacity, ", ", replay(seed)));
      ASSERT_NO_THROW(carry_at_random(capacity, seed));
      if (HasFatalFailure()) return;
    }
}

// Bytes, their order and the aligned beginnings survive two threads at their own pace.
TEST(BytePipe, CarriesMessagesBetweenThreads) {
  BytePipe pipe;
  pipe.slotted = kShortBytes;
  constexpr int kMessages = 3000;
  const auto length = [](int message) { return std::size_t(message * 37 % 500); };
  std::thread writing([&] {
    for (int message = 0; message < kMessages; message++) {
      pipe.writer.align();
      std::vector<std::byte> data(length(message), std::byte(message));
      ConstBytes left = data;
      while (!left.empty()) {
        const std::size_t written = pipe.write(left, message % 3 == 0 ? kShortBytes : 64);
        if (written > 0) pipe.writer.publish();
        left = left.subspan(written);
        std::this_thread::yield();
      }
    }
  });
  for (int message = 0; message < kMessages; message++) {
    pipe.reader.align();
    for (std::size_t left = length(message); left > 0;) {
      ConstBytes run = pipe.reader.peek();
      run = run.first(std::min(run.size(), left));  // what follows may be there already
      const std::ptrdiff_t at = run.data() - pipe.memory.data();
      if (left == length(message) && !run.empty() && at >= 0 && at < std::ptrdiff_t(kCapacity)) {
        ASSERT_EQ(at % std::ptrdiff_t(kLineBytes), 0);
      }
      for (const std::byte byte : run) ASSERT_EQ(byte, std::byte(message)) << message;
      pipe.reader.consume(run.size());
      left -= run.size();
      if (run.empty()) std::this_thread::yield();
    }
  }
  writing.join();
}

}  // namespace
}  // namespace anello::shm
