// Length-prefixed messages and the outbox, over a connection on loopback.
#include "ring/net/message_channel.hpp"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <anello/error.hpp>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/read.hpp>
#include <asio/use_future.hpp>
#include <asio/write.hpp>
#include <future>

#include "ring/base/text.hpp"

namespace anello::net {
namespace {

using asio::ip::tcp;
using std::chrono::milliseconds;

// Two connected sockets; `far` is used with blocking calls.
class MessageChannelTest : public testing::Test {
 protected:
  MessageChannelTest() {
    tcp::acceptor acceptor(context_, {asio::ip::address_v4::loopback(), 0});
    far_.connect(acceptor.local_endpoint());
    near_ = acceptor.accept();
  }
  std::string received(std::size_t max_bytes) {
    auto body = asio::co_spawn(context_, read_message(near_, max_bytes, "the test's connection"), asio::use_future);
    context_.restart();
    context_.run();
    return body.get();
  }
  std::string error(std::size_t max_bytes, ErrorCode code) {
    try {
      return text("no error: ", received(max_bytes));
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), code);
      return e.what();
    }
  }
  std::string read_far(std::size_t bytes) {
    std::string all(bytes, '\0');
    asio::read(far_, asio::buffer(all));
    return all;
  }

  asio::io_context context_{1};
  tcp::socket near_{context_}, far_{context_};
};

TEST_F(MessageChannelTest, ALengthStandsBeforeTheBody) {
  EXPECT_EQ(framed("body"), std::string("\4\0\0\0body", 8));
  EXPECT_EQ(framed(""), std::string(4, '\0'));
  EXPECT_EQ(message(MessageKind::beat, "xy"), std::string("\3\0\0\0\2xy", 7));
}

TEST_F(MessageChannelTest, MessagesAreReadOneByOne) {
  const std::string large(100000, 'x');
  asio::write(far_, asio::buffer(framed("first") + framed("") + framed(large)));
  EXPECT_EQ(received(5), "first");
  EXPECT_EQ(received(0), "");
  EXPECT_EQ(received(100000), large);
}

TEST_F(MessageChannelTest, ALengthAboveTheLimitIsAnErrorBeforeTheBodyIsRead) {
  asio::write(far_, asio::buffer(framed("123456")));
  EXPECT_EQ(error(5, ErrorCode::protocol), "message: claims 6 bytes, the limit is 5");
}

long peak_memory_kb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

TEST_F(MessageChannelTest, AClaimedLengthDoesNotAllocateMemory) {
  const long before = peak_memory_kb();
  asio::write(far_, asio::buffer(std::string("\0\0\0\x10 and the end", 16)));  // claims 256 MiB
  far_.close();
  EXPECT_EQ(error(SIZE_MAX, ErrorCode::network), "the test's connection was closed");
  EXPECT_LT(peak_memory_kb() - before, 64 << 10);
}

TEST_F(MessageChannelTest, TheEndOfAConnectionIsAnError) {
  far_.close();
  EXPECT_EQ(error(5, ErrorCode::network), "the test's connection was closed");
}

TEST_F(MessageChannelTest, MessagesAreSentInOrderAndDoNotWaitForTheReceiver) {
  const auto channel = std::make_shared<MessageChannel>(std::move(near_));
  std::string expected;
  for (const char letter : {'a', 'b', 'c'}) {
    const auto bytes = std::make_shared<const std::string>(framed(std::string(8 << 20, letter)));  // fills the buffers
    expected += *bytes;
    channel->send(bytes);
  }
  context_.run_for(milliseconds(100));
  EXPECT_TRUE(channel->queued()) << "the receiver has read nothing";
  auto read = std::async(std::launch::async, [&] { return read_far(expected.size()); });
  context_.run();
  EXPECT_TRUE(read.get() == expected);
  EXPECT_FALSE(channel->queued());
}

TEST_F(MessageChannelTest, AFinishedChannelSendsWhatIsQueuedAndIsClosedAfterTheLimit) {
  const auto channel = std::make_shared<MessageChannel>(std::move(near_));
  channel->send(std::make_shared<const std::string>(framed("last")));
  channel->finish(milliseconds(50));
  channel->send(std::make_shared<const std::string>(framed("too late")));
  context_.run();
  EXPECT_EQ(read_far(8), framed("last"));
  char more = 0;
  asio::error_code end;
  asio::read(far_, asio::buffer(&more, 1), end);
  EXPECT_EQ(end, asio::error::eof);
  EXPECT_FALSE(channel->socket().is_open());
}

TEST_F(MessageChannelTest, AFinishedChannelWithoutMessagesEndsAtOnce) {
  const auto channel = std::make_shared<MessageChannel>(std::move(near_));
  channel->finish(milliseconds(60000));
  char more = 0;
  asio::error_code end;
  asio::read(far_, asio::buffer(&more, 1), end);
  EXPECT_EQ(end, asio::error::eof);
}

TEST_F(MessageChannelTest, MessagesThatCannotBeSentAreDropped) {
  const auto channel = std::make_shared<MessageChannel>(std::move(near_));
  channel->close();
  for (int i = 0; i < 2; i++) channel->send(std::make_shared<const std::string>(framed("lost")));
  context_.run();
  EXPECT_FALSE(channel->queued());
}

}  // namespace
}  // namespace anello::net
