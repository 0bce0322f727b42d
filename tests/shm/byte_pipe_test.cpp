#include "ring/shm/byte_pipe.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <anello/error.hpp>
#include <array>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "tests/support/random.hpp"

namespace anello::shm {
namespace {

constexpr std::size_t kCapacity = 192;

struct BytePipe {
  std::unique_ptr<PipeState> state = std::make_unique<PipeState>();
  std::vector<std::byte> memory = std::vector<std::byte>(kCapacity);
  PipeWriter writer{*state, memory};
  PipeReader reader{*state, memory};

  std::size_t write(std::size_t bytes, std::size_t most = 1000) {
    const std::vector<std::byte> data(bytes, std::byte{7});
    const ConstBytes piece = data;
    const std::size_t written = writer.write(piece, most);
    if (written > 0) writer.publish();
    return written;
  }
  std::size_t read() {
    const std::size_t bytes = reader.peek().size();
    reader.consume(bytes);
    return bytes;
  }
};

TEST(BytePipe, holds_as_much_as_its_memory) {
  BytePipe pipe;
  EXPECT_TRUE(pipe.reader.peek().empty());
  EXPECT_EQ(pipe.write(100), 100);
  EXPECT_EQ(pipe.write(100), kCapacity - 100);
  EXPECT_EQ(pipe.write(1), 0);
  EXPECT_EQ(pipe.read(), kCapacity);
  EXPECT_EQ(pipe.write(50, 20), 20) << "no more than asked";
}

TEST(BytePipe, what_is_referred_to_is_found_between_what_was_copied) {
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

TEST(BytePipe, only_so_many_references_stand) {
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

TEST(BytePipe, a_writer_sleeps_until_its_references_are_taken) {
  BytePipe pipe;
  pipe.writer.refer({1, 0, 10});
  pipe.writer.publish();
  EXPECT_TRUE(pipe.writer.may_sleep());
  EXPECT_TRUE(pipe.reader.consume(4)) << "it must be woken";
  EXPECT_FALSE(pipe.writer.may_sleep());
  EXPECT_EQ(pipe.writer.taken(), 4);
  EXPECT_TRUE(pipe.writer.may_sleep());
}

TEST(BytePipe, references_to_the_past_are_refused) {
  BytePipe pipe;
  EXPECT_EQ(pipe.write(10), 10);
  EXPECT_EQ(pipe.read(), 10);
  pipe.writer.refer({1, 0, 10});
  pipe.writer.publish();
  pipe.state->references[0].begin = 3;
  EXPECT_THROW(pipe.reader.referred(), Error);
}

TEST(BytePipe, a_run_ends_where_the_memory_does) {
  BytePipe pipe;
  pipe.write(150);
  pipe.read();
  EXPECT_EQ(pipe.write(100), 100);
  EXPECT_EQ(pipe.read(), kCapacity - 150);
  EXPECT_EQ(pipe.read(), 100 - (kCapacity - 150));
}

TEST(BytePipe, both_align_and_no_byte_is_lost_or_made_up) {
  BytePipe pipe;
  EXPECT_EQ(pipe.write(190), 190);
  pipe.writer.align();
  EXPECT_EQ(pipe.write(10), 0) << "the rest of the line is given away";
  EXPECT_EQ(pipe.read(), 190);
  pipe.reader.align();
  EXPECT_TRUE(pipe.reader.peek().empty()) << "the writer has not followed";
  EXPECT_EQ(pipe.write(10), 10);
  EXPECT_EQ(pipe.reader.peek().data(), pipe.memory.data()) << "a line begins here";
  EXPECT_EQ(pipe.read(), 10);
}

TEST(BytePipe, who_sleeps_is_woken_once) {
  BytePipe pipe;
  const std::array one = {std::byte{1}};
  const ConstBytes piece = one;
  EXPECT_TRUE(pipe.reader.may_sleep());
  pipe.writer.write(piece, 1);
  EXPECT_TRUE(pipe.writer.publish());
  pipe.writer.write(piece, 1);
  EXPECT_FALSE(pipe.writer.publish());
  EXPECT_FALSE(pipe.reader.may_sleep()) << "there is something";
  EXPECT_FALSE(pipe.reader.consume(1)) << "nobody waits for room";
  pipe.write(1000);
  EXPECT_TRUE(pipe.writer.may_sleep());
  EXPECT_TRUE(pipe.reader.consume(1));
  EXPECT_FALSE(pipe.writer.may_sleep());
}

TEST(BytePipe, a_writer_that_claims_the_impossible_is_refused) {
  BytePipe pipe;
  pipe.state->written = kCapacity + 1;
  EXPECT_THROW(pipe.reader.peek(), Error);
}

// Bytes, their order and the aligned beginnings survive two threads at their own pace.
TEST(BytePipe, carries_messages_between_threads) {
  BytePipe pipe;
  constexpr int kMessages = 3000;
  const auto length = [](int message) { return std::size_t(message * 37 % 500); };
  std::thread writing([&] {
    for (int message = 0; message < kMessages; message++) {
      pipe.writer.align();
      std::vector<std::byte> data(length(message), std::byte(message));
      ConstBytes left = data;
      while (!left.empty()) {
        const std::size_t written = pipe.writer.write(left, 64);
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
      if (left == length(message) && !run.empty()) {
        ASSERT_EQ((run.data() - pipe.memory.data()) % std::ptrdiff_t(kLineBytes), 0);
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
