#include "ring/net/striped_link.hpp"

#include <gmock/gmock.h>
#include <poll.h>

#include <anello/error.hpp>
#include <asio/read.hpp>
#include <memory>
#include <numeric>
#include <vector>

#include "tests/support/loopback.hpp"

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

bool ready(const link::Link& link, short events, int limit_ms) {
  pollfd polled{link.descriptor(events == POLLOUT), events, 0};
  return poll(&polled, 1, limit_ms) > 0;
}

struct Linked : Loopback {
  explicit Linked(int buffer_bytes = 0)
      : Loopback(buffer_bytes), left(Descriptor(a.release())), right(Descriptor(b.release())) {}
  TcpLink left, right;
};

// Everything, in whatever parts it moves; pieces of `piece_bytes` on both sides.
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

TEST(StripedLink, EachConnectionHasItsShare) {
  constexpr std::size_t kStripe = StripedLink::kStripeBytes;
  Lanes lanes(2, 0);
  StripedLink link(lanes.take(&Loopback::a));
  const std::vector<std::byte> bytes = pattern(2 * kStripe + 10);
  for (std::size_t sent = 0; sent < bytes.size(); sent += send(link, ConstBytes(bytes).subspan(sent)))
    ASSERT_TRUE(ready(link, POLLOUT, 5000));
  std::vector<std::byte> out(bytes.size());
  asio::read(lanes.pairs[0]->b, asio::buffer(out.data(), kStripe));
  asio::read(lanes.pairs[1]->b, asio::buffer(out.data() + kStripe, kStripe));
  asio::read(lanes.pairs[0]->b, asio::buffer(out.data() + 2 * kStripe, 10));
  EXPECT_TRUE(out == bytes);
}

TEST(StripedLink, WaitsForTheConnectionWhoseTurnItIs) {
  Lanes lanes(2, 0);
  StripedLink link(lanes.take(&Loopback::a));
  std::vector<std::byte> out(10);
  lanes.pairs[1]->b.send(asio::buffer("later"));
  EXPECT_FALSE(ready(link, POLLIN, 50)) << "the second stripe has come, the first has not";
  EXPECT_EQ(receive(link, out), 0);
  lanes.pairs[0]->b.send(asio::buffer("now"));
  ASSERT_TRUE(ready(link, POLLIN, 5000));
  EXPECT_EQ(receive(link, out), 4);
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::network);
    return e.what();
  }
  ADD_FAILURE() << "no error";
  return {};
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
