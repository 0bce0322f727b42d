// A pipe carries messages of any lengths, at any pace of its two sides.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>
#include <vector>

#include "tests/shm/byte_pipe_pair.hpp"
#include "tests/support/random.hpp"

namespace anello::shm {
namespace {

// Acts like an operation: messages consist of whole elements, the writer is some messages ahead of the reader, and both
// sides align the pipe at the beginning of a message. The reader takes only whole elements. Every byte has its value,
// and all bytes arrive.
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

// If two threads run at different paces, the bytes still arrive in order, with aligned beginnings of messages.
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
      run = run.first(std::min(run.size(), left));  // the next message may be there already
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
