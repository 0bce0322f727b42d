#include "ring/net/striped_link.hpp"

#include <gmock/gmock.h>
#include <poll.h>

#include <anello/error.hpp>
#include <asio/read.hpp>
#include <memory>
#include <numeric>
#include <vector>

#include "ring/base/text.hpp"
#include "ring/base/wire.hpp"
#include "tests/support/loopback.hpp"
#include "tests/support/readiness.hpp"

namespace anello::net {
namespace {

using testing::HasSubstr;

std::vector<std::byte> pattern(std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; i++) bytes[i] = std::byte(i * 7 + i / 251);
  return bytes;
}

std::size_t send(link::Link& link, ConstBytes bytes) {
  return link.send_from({&bytes, 1});
}
std::size_t receive(link::Link& link, Bytes bytes) {
  return link.recv_into({&bytes, 1});
}

bool ready(link::Link& link, short events, int limit_ms) {
  return anello::ready(link, events == POLLOUT ? link::Wanted::room : link::Wanted::bytes,
                       std::chrono::milliseconds(limit_ms));
}

struct Linked : Loopback {
  explicit Linked(int buffer_bytes = 0)
      : Loopback(buffer_bytes), left(Descriptor(a.release())), right(Descriptor(b.release())) {}
  TcpLink left, right;
};

// Moves all bytes, in parts of any size. On both sides the memory is in pieces of `piece_bytes`.
std::vector<std::byte> carry(link::Link& from, link::Link& to, const std::vector<std::byte>& bytes,
                             std::size_t piece_bytes) {
  std::vector<std::byte> out(bytes.size());
  const auto cut = [&](auto all) {
    std::vector<decltype(all)> pieces;
    for (; !all.empty(); all = all.subspan(pieces.back().size()))
      pieces.push_back(all.first(std::min(piece_bytes, all.size())));
    return pieces;
  };
  for (std::size_t sent = 0, received = 0; received < out.size();) {
    if (sent < bytes.size()) sent += from.send_from(cut(ConstBytes(bytes).subspan(sent)));
    const std::size_t now = to.recv_into(cut(Bytes(out).subspan(received)));
    received += now;
    if (now == 0 && !ready(to, POLLIN, 5000)) throw std::runtime_error("nothing came for 5 s");
  }
  return out;
}

TEST(TcpLink, NothingToReceiveIsNoError) {
  Linked links;
  std::byte byte;
  EXPECT_EQ(receive(links.left, {&byte, 1}), 0);
  EXPECT_FALSE(ready(links.left, POLLIN, 0));
  EXPECT_TRUE(ready(links.left, POLLOUT, 0));
}

TEST(TcpLink, BytesArriveInOrderBothWays) {
  Linked links;
  const std::vector<std::byte> bytes = pattern(100);
  EXPECT_EQ(carry(links.left, links.right, bytes, 100), bytes);
  EXPECT_EQ(carry(links.right, links.left, bytes, 3), bytes) << "in more pieces than one call takes";
}

TEST(TcpLink, AFullPipeMovesNothingUntilItIsRead) {
  Linked links(4096);
  const std::vector<std::byte> bytes = pattern(1 << 20);
  std::size_t sent = 0;
  while (ready(links.left, POLLOUT, 50)) sent += send(links.left, ConstBytes(bytes).subspan(sent));
  EXPECT_GT(sent, 0);
  ASSERT_LT(sent, bytes.size()) << "the pipe holds more than it should";
  EXPECT_EQ(send(links.left, ConstBytes(bytes).subspan(sent)), 0);
  std::vector<std::byte> out(sent);
  for (std::size_t got = 0; got < sent; got += receive(links.right, Bytes(out).subspan(got)))
    ASSERT_TRUE(ready(links.right, POLLIN, 5000));
  EXPECT_TRUE(std::equal(out.begin(), out.end(), bytes.begin()));
}

TEST(TcpLink, MegabytesThroughSmallBuffersAndLargeOnes) {
  const std::vector<std::byte> bytes = pattern(3'000'017);
  for (const int buffer_bytes : {4096, 0})
    for (const std::size_t piece_bytes : {std::size_t(1000), std::size_t(700'001), bytes.size()}) {
      Linked links(buffer_bytes);
      EXPECT_TRUE(carry(links.left, links.right, bytes, piece_bytes) == bytes) << buffer_bytes << ", " << piece_bytes;
    }
}

struct Lanes {
  std::vector<std::unique_ptr<Loopback>> pairs;
  Lanes(int count, int buffer_bytes) {
    for (int k = 0; k < count; k++) pairs.push_back(std::make_unique<Loopback>(buffer_bytes));
  }
  std::vector<Descriptor> take(asio::ip::tcp::socket Loopback::*side) {
    std::vector<Descriptor> sockets;
    for (auto& pair : pairs) sockets.emplace_back(((*pair).*side).release());
    return sockets;
  }
};

struct Striped : Lanes {
  explicit Striped(int count, int buffer_bytes = 0)
      : Lanes(count, buffer_bytes), left(take(&Loopback::a)), right(take(&Loopback::b)) {}
  StripedLink left, right;
};

TEST(StripedLink, MegabytesArriveInOrderOverTwoAndFive) {
  const std::vector<std::byte> bytes = pattern(3'000'017);
  for (const int lanes : {2, 5})
    for (const int buffer_bytes : {4096, 0})
      for (const std::size_t piece_bytes : {std::size_t(1000), std::size_t(700'001), bytes.size()}) {
        Striped links(lanes, buffer_bytes);
        EXPECT_TRUE(carry(links.left, links.right, bytes, piece_bytes) == bytes) << lanes << ", " << piece_bytes;
        EXPECT_TRUE(carry(links.right, links.left, bytes, piece_bytes) == bytes) << "and the other way";
      }
}

// The head of a stripe in its wire format.
std::string head(std::uint32_t number, std::uint32_t bytes) {
  return Writer().u32(number).u32(bytes).bytes();
}

std::string read(asio::ip::tcp::socket& socket, std::size_t bytes) {
  std::string out(bytes, 0);
  asio::read(socket, asio::buffer(out));
  return out;
}

TEST(StripedLink, AStripeBeginsWithItsNumberAndSize) {
  constexpr std::size_t kStripe = StripedLink::kStripeBytes;
  Lanes lanes(2, 0);
  StripedLink link(lanes.take(&Loopback::a));
  const std::vector<std::byte> bytes = pattern(kStripe + 10);
  const std::string_view expected(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::size_t sent = 0;
  while (sent < kStripe) sent += send(link, ConstBytes(bytes).subspan(sent, kStripe - sent));
  EXPECT_EQ(read(lanes.pairs[0]->b, 8), head(0, kStripe));
  EXPECT_EQ(read(lanes.pairs[0]->b, kStripe), expected.substr(0, kStripe));
  EXPECT_EQ(send(link, ConstBytes(bytes).subspan(kStripe)), 10);
  EXPECT_EQ(read(lanes.pairs[0]->b, 18), head(1, 10) + std::string(expected.substr(kStripe)));
}

// The receiver reads the first connection only after the second connection has carried the bytes for which the first
// had no room.
TEST(StripedLink, WhatOneConnectionDoesNotTakeGoesOverTheOther) {
  Lanes lanes(2, 64 << 10);
  StripedLink left(lanes.take(&Loopback::a));
  const std::vector<std::byte> bytes = pattern(StripedLink::kStripeBytes);
  std::uint32_t stripes = 0;
  const auto send_one = [&] {
    for (std::size_t sent = 0; sent < bytes.size();) {
      if (!ready(left, POLLOUT, 100)) return false;
      sent += send(left, ConstBytes(bytes).subspan(sent));
    }
    stripes++;
    return true;
  };
  std::uint64_t on_second = 0;
  while (on_second == 0 && stripes < 1000) {
    if (!send_one()) break;
    on_second = lanes.pairs[1]->b.available();
  }
  EXPECT_GT(on_second, 0u) << stripes;
}

TEST(StripedLink, WaitsForTheConnectionWithTheNextStripe) {
  Lanes lanes(2, 0);
  StripedLink link(lanes.take(&Loopback::a));
  std::vector<std::byte> out(20);
  lanes.pairs[0]->b.send(asio::buffer(head(1, 5) + "later"));
  ASSERT_TRUE(ready(link, POLLIN, 5000)) << "its head";
  EXPECT_EQ(receive(link, out), 0);
  EXPECT_FALSE(ready(link, POLLIN, 50)) << "the second stripe has come, the first has not";
  lanes.pairs[1]->b.send(asio::buffer(head(0, 4)));
  lanes.pairs[1]->b.send(asio::buffer(std::string("now ")));
  std::size_t received = 0;
  while (received < 9 && ready(link, POLLIN, 5000)) received += receive(link, std::span(out).subspan(received));
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(out.data()), received), "now later");
}

// The receiver reads the head of the second stripe while it waits for the first stripe. Nothing more comes over the
// second stripe's connection.
TEST(StripedLink, AStripeWhoseHeadWasReadEarlyIsNotForgotten) {
  Lanes lanes(2, 0);
  StripedLink link(lanes.take(&Loopback::a));
  std::vector<std::byte> out(5);
  lanes.pairs[1]->b.send(asio::buffer(head(1, 5) + "later"));
  ASSERT_TRUE(ready(link, POLLIN, 5000)) << "its head";
  EXPECT_EQ(receive(link, out), 0);
  lanes.pairs[0]->b.send(asio::buffer(head(0, 3) + "now"));
  for (std::size_t received = 0; received < 3;
       received += receive(link, std::span(out).subspan(received, 3 - received)))
    ASSERT_TRUE(ready(link, POLLIN, 5000)) << "the first";
  ASSERT_TRUE(ready(link, POLLIN, 5000)) << "the second has come long ago";
  EXPECT_EQ(receive(link, out), 5);
}

std::string error_of(const std::function<void()>& call, ErrorCode code = ErrorCode::network) {
  try {
    call();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code);
    return e.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

// The first connection had no room for all bytes, so the others went over the second. Then the sender has closed both.
TEST(StripedLink, WhatWasSentBeforeTheEndStillArrivesOverAnotherConnection) {
  Lanes lanes(2, 0);
  StripedLink link(lanes.take(&Loopback::a));
  std::vector<std::byte> out(20);
  lanes.pairs[0]->b.close();
  ASSERT_TRUE(ready(link, POLLIN, 5000)) << "the end of the first";
  EXPECT_EQ(receive(link, out), 0);
  EXPECT_FALSE(ready(link, POLLIN, 50)) << "an end is news only once";
  lanes.pairs[1]->b.send(asio::buffer(head(0, 4) + "last"));
  lanes.pairs[1]->b.send(asio::buffer(head(1, 6) + " words"));
  lanes.pairs[1]->b.close();
  std::size_t received = 0;
  while (received < 10 && ready(link, POLLIN, 5000))
    received += receive(link, std::span(out).subspan(received, 10 - received));
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(out.data()), received), "last words");
  ASSERT_TRUE(ready(link, POLLIN, 5000));
  EXPECT_THAT(error_of([&] { receive(link, out); }), HasSubstr("the connection was closed"));
  ASSERT_TRUE(ready(link, POLLIN, 0)) << "and stays so";
  EXPECT_THAT(error_of([&] { receive(link, out); }), HasSubstr("the connection was closed"));
}

TEST(StripedLink, TheEndOfAConnectionWithinAStripeIsAnError) {
  for (const std::string& bytes : {head(0, 4).substr(0, 3), head(0, 4), head(0, 4) + "som"}) {
    Lanes lanes(2, 0);
    StripedLink link(lanes.take(&Loopback::a));
    lanes.pairs[1]->b.send(asio::buffer(bytes));
    lanes.pairs[1]->b.close();
    std::vector<std::byte> out(4);
    const auto receive_all = [&] {
      while (ready(link, POLLIN, 5000)) receive(link, out);
    };
    EXPECT_THAT(error_of(receive_all), HasSubstr("the connection was closed")) << bytes.size();
  }
}

TEST(StripedLink, NothingComesAnyMoreWhenOnlyALaterStripeHas) {
  Lanes lanes(2, 0);
  StripedLink link(lanes.take(&Loopback::a));
  lanes.pairs[0]->b.send(asio::buffer(head(1, 4) + "late"));
  std::vector<std::byte> out(4);
  ASSERT_TRUE(ready(link, POLLIN, 5000));
  EXPECT_EQ(receive(link, out), 0);
  lanes.pairs[1]->b.close();
  ASSERT_TRUE(ready(link, POLLIN, 5000));
  EXPECT_THAT(error_of([&] { receive(link, out); }), HasSubstr("the connection was closed"));
}

TEST(StripedLink, AStripeWithoutASensibleSizeIsAnError) {
  for (const std::uint32_t bytes : {std::uint32_t(0), std::uint32_t(StripedLink::kStripeBytes + 1)}) {
    Lanes lanes(2, 0);
    StripedLink link(lanes.take(&Loopback::a));
    std::vector<std::byte> out(10);
    lanes.pairs[0]->b.send(asio::buffer(head(0, bytes)));
    ASSERT_TRUE(ready(link, POLLIN, 5000));
    EXPECT_THAT(error_of([&] { receive(link, out); }, ErrorCode::protocol), HasSubstr(text("a stripe of ", bytes)));
  }
}

TEST(TcpLink, WhatWasSentBeforeTheEndStillArrives) {
  Loopback pair;
  TcpLink link{Descriptor(pair.a.release())};
  pair.b.send(asio::buffer("last words"));
  pair.b.close();
  std::vector<std::byte> out(100);
  ASSERT_TRUE(ready(link, POLLIN, 5000));
  EXPECT_EQ(receive(link, out), 11);
  ASSERT_TRUE(ready(link, POLLIN, 5000)) << "the end is news too";
  EXPECT_THAT(error_of([&] { receive(link, out); }), HasSubstr("the connection was closed"));
  EXPECT_THAT(error_of([&] { receive(link, out); }), HasSubstr("the connection was closed")) << "and stays so";
}

TEST(TcpLink, SaysWhetherBytesHaveComeAndTakesNone) {
  Loopback pair;
  TcpLink link{Descriptor(pair.a.release())};
  EXPECT_FALSE(link.has_arrived());
  pair.b.send(asio::buffer(std::string("word")));
  pair.b.close();
  ASSERT_TRUE(ready(link, POLLIN, 5000));
  EXPECT_TRUE(link.has_arrived() && link.has_arrived());
  std::vector<std::byte> out(100);
  EXPECT_EQ(receive(link, out), 4);
  ASSERT_TRUE(ready(link, POLLIN, 5000));
  EXPECT_THAT(error_of([&] { (void)link.has_arrived(); }), HasSubstr("the connection was closed"));
}

// The head of a stripe is read only once: by has_arrived(), or by the receive.
TEST(StripedLink, SaysWhetherTheNextStripeHasBegun) {
  Lanes lanes(2, 0);
  StripedLink link(lanes.take(&Loopback::a));
  std::vector<std::byte> out(20);
  EXPECT_FALSE(link.has_arrived());
  lanes.pairs[0]->b.send(asio::buffer(head(1, 5) + "later"));
  ASSERT_TRUE(ready(link, POLLIN, 5000));
  EXPECT_FALSE(link.has_arrived()) << "only the second has";
  lanes.pairs[1]->b.send(asio::buffer(head(0, 3)));
  ASSERT_TRUE(ready(link, POLLIN, 5000));
  EXPECT_TRUE(link.has_arrived() && link.has_arrived());
  lanes.pairs[1]->b.send(asio::buffer(std::string("now")));
  std::size_t received = 0;
  while (received < 3 && ready(link, POLLIN, 5000))
    received += receive(link, std::span(out).subspan(received, 3 - received));
  EXPECT_TRUE(link.has_arrived()) << "the second has come long ago";
  EXPECT_EQ(receive(link, std::span(out).subspan(received)), 5);
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(out.data()), 8), "nowlater");
  EXPECT_FALSE(link.has_arrived());
  for (const auto& pair : lanes.pairs) pair->b.close();
  const auto ask = [&] {
    while (ready(link, POLLIN, 5000)) (void)link.has_arrived();
  };
  EXPECT_THAT(error_of(ask), HasSubstr("the connection was closed"));
}

TEST(TcpLink, AResetIsAnErrorOfBothDirections) {
  Loopback pair;
  TcpLink link{Descriptor(pair.a.release())};
  pair.b.set_option(asio::socket_base::linger(true, 0));
  pair.b.close();
  ASSERT_TRUE(ready(link, POLLIN, 5000));
  const std::vector<std::byte> bytes = pattern(10);
  std::vector<std::byte> out(10);
  EXPECT_NE(error_of([&] { receive(link, out); }), "");
  EXPECT_NE(error_of([&] { send(link, bytes); }), "") << "and no signal ends the process";
}

}  // namespace
}  // namespace anello::net
