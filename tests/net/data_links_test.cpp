#include "ring/net/data_links.hpp"

#include <gmock/gmock.h>
#include <poll.h>

#include <future>

#include "ring/base/text.hpp"
#include "ring/net/event_loop.hpp"
#include "tests/support/resources.hpp"

namespace anello::net {
namespace {

using testing::HasSubstr;

Identity identity_of(int rank, std::uint32_t generation) {
  return {.job = "links", .generation = generation, .rank = rank, .size = 2, .host = "here", .address = "127.0.0.1"};
}

struct Rank {
  std::shared_ptr<const link::GroupInfo> group;
  EventLoop background;
  trace::RejectedConnections rejected_connections;
  PeerConnections peer_connections;
  std::promise<std::pair<int, std::string>> failed;
  std::shared_ptr<DataLinks> shared;
  DataLinks& links;

  explicit Rank(int rank, std::uint32_t generation = 1, bool shares = false, std::size_t pipe_bytes = 4096,
                int connections = 1)
      : group(std::make_shared<const link::GroupInfo>(link::GroupInfo{.name = "the world", .members = {0, 1}})),
        peer_connections(background.context(), identity_of(rank, generation), {}, rejected_connections),
        shared(std::make_shared<DataLinks>(background.context(), peer_connections, group, rank,
                                           Sharing{{shares, shares}, pipe_bytes}, connections,
                                           [this](int peer, std::string why) {
                                             failed.set_value({peer, std::move(why)});
                                           })),
        links(*shared) {}
  ~Rank() { background.stop(); }

  void open(const Rank& first, const Rank& second) {
    peer_connections.open(
        {first.peer_connections.endpoint(), second.peer_connections.endpoint()},
        [this](const Claim& claim, PeerConnections::Socket socket) { links.accepted(claim, std::move(socket)); });
  }
  bool rings(int limit_ms = 10000) {
    pollfd polled{group->bell->descriptor(), POLLIN, 0};
    return poll(&polled, 1, limit_ms) == 1;
  }
};

struct TwoRanks {
  Rank low, high;
  explicit TwoRanks(std::uint32_t generation_of_high = 1, bool share = false, std::size_t pipe_bytes = 4096,
                    int connections = 1)
      : low(0, 1, share, pipe_bytes, connections), high(1, generation_of_high, share, pipe_bytes, connections) {
    low.open(low, high);
    high.open(low, high);
  }
};

TEST(DataLinks, the_higher_rank_connects_when_it_needs_the_link) {
  TwoRanks ranks;
  EXPECT_EQ(ranks.high.links.find(0), nullptr) << "it takes a while";
  ASSERT_TRUE(ranks.high.rings() && ranks.low.rings());
  link::Link* const up = ranks.high.links.find(0);
  link::Link* const down = ranks.low.links.find(1);
  ASSERT_TRUE(up && down);
  EXPECT_EQ(ranks.high.links.find(0), up);

  const std::array<std::byte, 3> sent = {std::byte(1), std::byte(2), std::byte(3)};
  std::array<std::byte, 3> received{};
  const ConstBytes out(sent);
  const Bytes in(received);
  EXPECT_EQ(up->send_from({&out, 1}), 3);
  pollfd polled{down->descriptor(false), POLLIN, 0};
  ASSERT_EQ(poll(&polled, 1, 10000), 1);
  EXPECT_EQ(down->recv_into({&in, 1}), 3);
  EXPECT_EQ(received, sent);
}

TEST(DataLinks, the_lower_rank_waits) {
  TwoRanks ranks;
  EXPECT_EQ(ranks.low.links.find(1), nullptr);
  EXPECT_FALSE(ranks.low.rings(50));
  EXPECT_EQ(ranks.low.links.find(1), nullptr);
}

TEST(DataLinks, ranks_that_may_go_over_to_shared_memory) {
  const std::ptrdiff_t before = open_descriptors();
  {
    TwoRanks ranks(1, true);
    ranks.high.links.find(0);
    ASSERT_TRUE(ranks.high.rings() && ranks.low.rings());
    link::Link* const up = ranks.high.links.find(0);
    link::Link* const down = ranks.low.links.find(1);
    ASSERT_TRUE(up && down);
    EXPECT_TRUE(up->peeks() && down->peeks());
    const ConstBytes word = std::as_bytes(std::span("word"));
    EXPECT_EQ(up->send_from({&word, 1}), word.size());
    EXPECT_EQ(down->peek().size(), word.size());
    EXPECT_FALSE(down->may_sleep(true)) << "there is room";
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(DataLinks, several_connections_make_one_link) {
  const std::ptrdiff_t before = open_descriptors();
  {
    TwoRanks ranks(1, false, 0, 3);
    const std::ptrdiff_t without = open_descriptors();
    ranks.high.links.find(0);
    ASSERT_TRUE(ranks.high.rings() && ranks.low.rings());
    link::Link* const up = ranks.high.links.find(0);
    link::Link* const down = ranks.low.links.find(1);
    ASSERT_TRUE(up && down);
    EXPECT_EQ(open_descriptors(), without + 6);
    const ConstBytes word = std::as_bytes(std::span("word"));
    EXPECT_EQ(up->send_from({&word, 1}), word.size());
    pollfd polled{down->descriptor(false), POLLIN, 0};
    EXPECT_EQ(poll(&polled, 1, 10000), 1);
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(DataLinks, shared_memory_needs_no_further_connections) {
  TwoRanks ranks(1, true, 4096, 3);
  ranks.high.links.find(0);
  ASSERT_TRUE(ranks.high.rings() && ranks.low.rings());
  EXPECT_TRUE(ranks.high.links.find(0)->peeks() && ranks.low.links.find(1)->peeks());
}

// Whether one side cannot make the memory or the other not take it, both know, and the connection still serves.
TEST(DataLinks, without_memory_tcp_is_used) {
  for (const std::size_t pipe_bytes : {std::size_t(0), std::size_t(1) << 60}) {
    TwoRanks ranks(1, true, pipe_bytes);
    ranks.high.links.find(0);
    ASSERT_TRUE(ranks.high.rings() && ranks.low.rings());
    link::Link* const up = ranks.high.links.find(0);
    ASSERT_TRUE(up && ranks.low.links.find(1));
    EXPECT_FALSE(up->peeks() || ranks.low.links.find(1)->peeks());
  }
}

TEST(DataLinks, asking_again_makes_no_second_connection) {
  TwoRanks ranks;
  for (int k = 0; k < 3; k++) ranks.high.links.find(0);
  ASSERT_TRUE(ranks.high.rings() && ranks.low.rings());
  ASSERT_TRUE(ranks.high.links.find(0) && ranks.low.links.find(1));
  ranks.low.group->bell->hush();
  EXPECT_FALSE(ranks.low.rings(50));
}

TEST(DataLinks, a_refusal_is_reported_with_its_reason) {
  TwoRanks ranks(2);
  ranks.high.links.find(0);
  const auto [peer, why] = ranks.high.failed.get_future().get();
  EXPECT_EQ(peer, 0);
  EXPECT_THAT(why, HasSubstr("cannot connect to rank 0 on here"));
  EXPECT_THAT(why, HasSubstr("generation 2 is not the current one, 1"));
}

// The other side never asked for the link, so nobody took the connection.
TEST(DataLinks, a_connection_that_nobody_took_is_closed) {
  const auto before = open_descriptors();
  {
    TwoRanks ranks;
    ranks.high.links.find(0);
    ASSERT_TRUE(ranks.high.rings() && ranks.low.rings());
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(PeerConnections, without_descriptors_it_cannot_listen_and_says_so) {
  EventLoop background;
  const asio::ip::tcp::socket first(background.context());  // Asio's own descriptors are there
  const FewDescriptors limit(0);
  try {
    trace::RejectedConnections rejected_connections;
    PeerConnections peer_connections(background.context(), identity_of(0, 1), {}, rejected_connections);
    FAIL() << "a socket was to be had";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::network);
    EXPECT_THAT(e.what(), HasSubstr("Too many open files"));
  }
}

TEST(PeerConnections, listens_within_the_range_of_ports_or_says_which_it_tried) {
  EventLoop background;
  Settings settings;
  settings.port_range = "47101-47103";
  trace::RejectedConnections rejected_connections;
  std::vector<std::unique_ptr<PeerConnections>> taken;
  try {
    for (int k = 0; k < 4; k++) {
      taken.push_back(
          std::make_unique<PeerConnections>(background.context(), identity_of(0, 1), settings, rejected_connections));
      EXPECT_THAT(taken.back()->endpoint().port, testing::AllOf(testing::Ge(47101), testing::Le(47103)));
    }
    FAIL() << "there are three ports for four";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::network);
    EXPECT_THAT(e.what(), HasSubstr("cannot listen on 127.0.0.1 ports 47101-47103: "));
  }
}

}  // namespace
}  // namespace anello::net
