#include "ring/net/data_links.hpp"

#include <gmock/gmock.h>
#include <poll.h>

#include <algorithm>
#include <asio/co_spawn.hpp>
#include <asio/use_future.hpp>
#include <atomic>
#include <future>
#include <optional>
#include <set>
#include <thread>

#include "ring/base/log.hpp"
#include "ring/base/text.hpp"
#include "ring/link/memory_link.hpp"
#include "tests/net/two_ranks.hpp"
#include "tests/support/readiness.hpp"
#include "tests/support/resources.hpp"
#include "tests/support/undisturbed.hpp"

namespace anello::net {
namespace {

using testing::HasSubstr;

std::size_t send(link::Link& link, std::string_view text) {
  const ConstBytes bytes = std::as_bytes(std::span(text));
  return link.send_from({&bytes, 1});
}
std::string receive(link::Link& link, std::size_t bytes) {
  std::string text(bytes, '?');
  for (std::size_t got = 0; got < bytes;) {
    const Bytes piece = std::as_writable_bytes(std::span(text)).subspan(got);
    got += link.recv_into({&piece, 1});
  }
  return text;
}

TEST(DataLinks, TheHigherRankConnectsWhenItNeedsTheLink) {
  TwoRanks ranks;
  EXPECT_EQ(ranks.high.links->find(0), nullptr) << "it takes a while";
  ASSERT_TRUE(ranks.high.rings() && ranks.low.rings());
  link::Link* const up = ranks.high.links->find(0);
  link::Link* const down = ranks.low.links->find(1);
  ASSERT_TRUE(up && down);
  EXPECT_EQ(ranks.high.links->find(0), up);

  const std::array<std::byte, 3> sent = {std::byte(1), std::byte(2), std::byte(3)};
  std::array<std::byte, 3> received{};
  const ConstBytes out(sent);
  const Bytes in(received);
  EXPECT_EQ(up->send_from({&out, 1}), 3);
  ASSERT_TRUE(ready(*down, link::Wanted::bytes, std::chrono::seconds(10)));
  EXPECT_EQ(down->recv_into({&in, 1}), 3);
  EXPECT_EQ(received, sent);
}

// Counts this process's sockets that are connected to one of these places, and expects that each place is used.
std::size_t connected_to(const std::set<std::string>& places) {
  std::size_t sockets = 0;
  std::set<std::string> used;
  for (int descriptor = 0; descriptor < 1000; descriptor++) {
    sockaddr_in peer{};
    socklen_t bytes = sizeof peer;
    if (getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &bytes) != 0 || peer.sin_family != AF_INET)
      continue;
    const std::string place =
        text(asio::ip::address_v4(ntohl(peer.sin_addr.s_addr)).to_string(), " port ", ntohs(peer.sin_port));
    if (!places.contains(place)) continue;
    sockets++;
    used.insert(place);
  }
  EXPECT_EQ(used, places);
  return sockets;
}

TEST(DataLinks, TheLowerRankWaits) {
  TwoRanks ranks;
  EXPECT_EQ(ranks.low.links->find(1), nullptr);
  EXPECT_FALSE(ranks.low.rings(50));
  EXPECT_EQ(ranks.low.links->find(1), nullptr);
}

TEST(DataLinks, RanksThatMayGoOverToSharedMemory) {
  const std::ptrdiff_t before = open_descriptors();
  {
    TwoRanks ranks(over(true));
    ranks.high.links->find(0);
    ASSERT_TRUE(ranks.high.rings() && ranks.low.rings());
    link::Link* const up = ranks.high.links->find(0);
    link::Link* const down = ranks.low.links->find(1);
    ASSERT_TRUE(up && down);
    EXPECT_TRUE(up->memory() && down->memory());
    const ConstBytes word = std::as_bytes(std::span("word"));
    EXPECT_EQ(up->send_from({&word, 1}), word.size());
    EXPECT_EQ(down->memory()->peek().size(), word.size());
    EXPECT_TRUE(ready(*down, link::Wanted::room, {})) << "there is room";
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(DataLinks, SeveralConnectionsMakeOneLink) {
  const std::ptrdiff_t before = open_descriptors();
  {
    TwoRanks ranks(over(false, 0, 3));
    const std::ptrdiff_t without = open_descriptors();
    ranks.high.links->find(0);
    ASSERT_TRUE(ranks.high.rings() && ranks.low.rings());
    link::Link* const up = ranks.high.links->find(0);
    link::Link* const down = ranks.low.links->find(1);
    ASSERT_TRUE(up && down);
    EXPECT_EQ(open_descriptors(), without + 6);
    const ConstBytes word = std::as_bytes(std::span("word"));
    EXPECT_EQ(up->send_from({&word, 1}), word.size());
    EXPECT_TRUE(ready(*down, link::Wanted::bytes, std::chrono::seconds(10)));
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(DataLinks, EachPairOfInterfacesHasConnectionsOfItsOwn) {
  for (const std::size_t connections : {1, 2}) {
    TwoRanks ranks(over(false, 0, connections), 1, true, {"127.0.0.2", "127.0.0.3"}, {"127.0.0.4", "127.0.0.5"});
    EXPECT_EQ(ranks.low.peer_connections.ways(1), 3u);
    const std::ptrdiff_t without = open_descriptors();
    ASSERT_TRUE(ranks.high.link() && ranks.low.link());
    EXPECT_EQ(open_descriptors(), without + 6 * std::ptrdiff_t(connections));
    std::set<std::string> places;
    for (std::size_t way = 0; way < 3; way++) places.insert(ranks.high.peer_connections.place(0, way));
    EXPECT_EQ(connected_to(places), 3 * connections);
  }
}

TEST(DataLinks, UseAsManyInterfacesAsBothRanksHave) {
  TwoRanks ranks(over(false), 1, true, {"127.0.0.2"}, {"127.0.0.4", "127.0.0.5"});
  EXPECT_EQ(ranks.low.peer_connections.ways(1), 2u);
  EXPECT_EQ(ranks.high.peer_connections.ways(0), 2u);
  const std::ptrdiff_t without = open_descriptors();
  ASSERT_TRUE(ranks.high.link() && ranks.low.link());
  EXPECT_EQ(open_descriptors(), without + 4);
}

TEST(DataLinks, SharedMemoryNeedsNoFurtherConnections) {
  TwoRanks ranks(over(true, 4096, 3));
  ranks.high.links->find(0);
  ASSERT_TRUE(ranks.high.rings() && ranks.low.rings());
  EXPECT_TRUE(ranks.high.links->find(0)->memory() && ranks.low.links->find(1)->memory());
}

// If one side cannot make the memory or the other cannot map it, both sides use the connection for the data.
TEST(DataLinks, WithoutMemoryTcpIsUsed) {
  for (const std::size_t pipe_bytes : {std::size_t(0), std::size_t(1) << 60}) {
    TwoRanks ranks(over(true, pipe_bytes));
    ranks.high.links->find(0);
    ASSERT_TRUE(ranks.high.rings() && ranks.low.rings());
    link::Link* const up = ranks.high.links->find(0);
    ASSERT_TRUE(up && ranks.low.links->find(1));
    EXPECT_FALSE(up->memory() || ranks.low.links->find(1)->memory());
  }
}

TEST(DataLinks, AskingAgainMakesNoSecondConnection) {
  TwoRanks ranks;
  for (int k = 0; k < 3; k++) ranks.high.links->find(0);
  ASSERT_TRUE(ranks.high.rings() && ranks.low.rings());
  ASSERT_TRUE(ranks.high.links->find(0) && ranks.low.links->find(1));
  ranks.low.group->bell->hush();
  EXPECT_FALSE(ranks.low.rings(50));
}

TEST(DataLinks, ARefusalIsReportedWithItsReason) {
  TwoRanks ranks(over(false), 2);
  ranks.high.links->find(0);
  const Error why = ranks.high.failed.get_future().get();
  EXPECT_EQ(why.rank(), 0);
  EXPECT_THAT(why.what(), HasSubstr("cannot connect to rank 0 on here"));
  EXPECT_THAT(why.what(), HasSubstr("generation 2 is not the current one, 1"));
}

// The other side never asked for the link, so the connection to it was not used.
TEST(DataLinks, AConnectionThatWasNotUsedIsClosed) {
  const auto before = open_descriptors();
  {
    TwoRanks ranks;
    ranks.high.links->find(0);
    ASSERT_TRUE(ranks.high.rings() && ranks.low.rings());
  }
  EXPECT_EQ(open_descriptors(), before);
}

// The other side's background thread answers, even if its program does nothing.
TEST(DataLinks, ALinkWaitsForNoProgramOnTheOtherSide) {
  for (const LinkOptions& options : {over(true), over(false), over(false, 0, 3)}) {
    TwoRanks ranks(options, 1, false);
    link::Link* const up = ranks.high.link();
    ASSERT_TRUE(up);
    EXPECT_EQ(send(*up, "word"), 4);
    ranks.low.begin();
    link::Link* const down = ranks.low.link();
    ASSERT_TRUE(down);
    EXPECT_EQ(down->memory() != nullptr, options.shares_memory[0]);
    EXPECT_EQ(receive(*down, 4), "word");
  }
}

// Returns the number of open descriptors. The negotiation closes its descriptors a moment after the link is ready, so
// this waits for `expected`.
std::ptrdiff_t descriptors_left(std::ptrdiff_t expected) {
  for (int k = 0; k < 2000 && open_descriptors() != expected; k++)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return open_descriptors();
}

TEST(DataLinks, GroupsAndLinksCostFewDescriptors) {
  for (const bool memory : {false, true}) {
    TwoRanks ranks(over(memory));
    std::ptrdiff_t expected = open_descriptors() + 2;  // a bell for each side
    ranks.high.begin(1);
    ranks.low.begin(1);
    EXPECT_EQ(descriptors_left(expected), expected);
    ASSERT_TRUE(ranks.high.link() && ranks.low.link());
    expected += memory ? 4 : 2;
    EXPECT_EQ(descriptors_left(expected), expected);
  }
}

// A rank connects and is gone before this rank makes the group. No operation expects its data yet, so its end is no
// failure until the group is made.
TEST(DataLinks, WhatFailedBeforeTheGroupWasMadeCountsThen) {
  Rank low(0, 1, over(true));
  {
    Rank high(1, 1, over(false));  // this rank offers no memory, so the other rank waits for an offer
    high.begin();
    low.open(low, high);
    high.open(low, high);
    ASSERT_TRUE(high.link());
  }
  std::future<Error> failed = low.failed.get_future();
  EXPECT_EQ(failed.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  low.begin();
  const Error why = failed.get();
  EXPECT_EQ(why.code(), ErrorCode::network);
  EXPECT_EQ(why.rank(), 1);
}

TEST(DataLinks, ARankWarnsOnceThatMemoryIsNotSharedThere) {
  testing::internal::CaptureStderr();
  {
    TwoRanks ranks(over(true, std::size_t(1) << 60));
    ASSERT_TRUE(ranks.high.link() && ranks.low.link());
  }
  flush_log(std::chrono::seconds(10));
  const std::string log = testing::internal::GetCapturedStderr();
  const std::size_t warning = log.find("warning: no shared memory with rank ");
  ASSERT_NE(warning, std::string::npos) << log;
  EXPECT_EQ(log.find("warning: no shared memory", warning + 1), std::string::npos) << log;
  EXPECT_THAT(log, HasSubstr("TCP is used, which is slower"));
}

// The higher rank, which has to offer memory, cannot make this memory.
TEST(DataLinks, MemoryThatIsRequiredAndCannotBeHadIsAnErrorOfTheRankThatCannot) {
  LinkOptions options = over(true, std::size_t(1) << 60);
  options.memory_required = true;
  TwoRanks ranks(options);
  ranks.high.links->find(0);
  for (Rank* rank : {&ranks.high, &ranks.low}) {
    const Error why = rank->failed.get_future().get();
    EXPECT_EQ(why.code(), ErrorCode::configuration);
    EXPECT_EQ(why.rank(), ranks.high.rank);
    EXPECT_THAT(why.what(), HasSubstr(text("no shared memory with rank ", 1 - rank->rank, " of this host: ")));
    EXPECT_THAT(why.what(), HasSubstr("ANELLO_TRANSPORT=shm allows nothing else"));
  }
}

TEST(PeerConnections, WithoutDescriptorsItCannotListenAndSaysSo) {
  EventLoop background;
  const asio::ip::tcp::socket first(background.context());  // Asio's own descriptors exist from here on
  const FewDescriptors limit(0);
  try {
    trace::RejectedConnections rejected_connections;
    PeerConnections peer_connections(background.context(), Rank::identity_of(0, 1), {}, rejected_connections);
    FAIL() << "a socket was to be had";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::network);
    EXPECT_THAT(e.what(), HasSubstr("Too many open files"));
  }
}

asio::awaitable<bool> connect(Rank& high, PeerConnections::Wanted wanted) {
  co_return (co_await high.peer_connections.connect(0, Role::data, 0, 0, PeerConnections::kNoDeadline, wanted))
      .is_open();
}
std::future<bool> start_to_connect(
    Rank& high, PeerConnections::Wanted wanted = [] { return true; }) {
  return asio::co_spawn(high.background.context(), connect(high, std::move(wanted)), asio::use_future);
}

// A rank accepts the connection, and for a while does not answer.
TEST(PeerConnections, ARankThatAnswersLateIsConnected) {
  Rank low(0, 1, over(false)), high(1, 1, over(false));
  high.open(low, high);
  std::future<bool> connected = start_to_connect(high);
  std::this_thread::sleep_for(2 * Rank::kHandshakeLimitOfTests);
  low.open(low, high);
  EXPECT_TRUE(connected.get());
}

TEST(PeerConnections, AConnectionThatIsNotWantedAnyMoreIsNotTriedAgain) {
  Rank low(0, 1, over(false)), high(1, 1, over(false));
  high.open(low, high);
  std::atomic<bool> wanted = true;
  std::future<bool> connected = start_to_connect(high, [&] { return wanted.load(); });
  wanted = false;
  EXPECT_THROW(connected.get(), Error);
}

TEST(PeerConnections, ConnectionsThatHaveNotAuthenticatedMakeRoomForARank) {
  undisturbed(milliseconds(100), [&] {
    Rank low(0, 1, over(false)), high(1, 1, over(false));
    std::atomic<int> exhausted = 0;
    std::promise<void> accepted;
    low.peer_connections.open(
        {low.peer_connections.endpoint(), high.peer_connections.endpoint()},
        [&](const Claim&, const PeerConnections::Socket&) { accepted.set_value(); }, [&](int) { exhausted++; });
    high.open(low, high);
    constexpr int kStrangers = 5;
    asio::io_context context;
    const asio::ip::tcp::socket first(context);  // Asio's own descriptors exist from here on
    const std::ptrdiff_t before = open_descriptors();
    std::vector<asio::ip::tcp::socket> strangers;
    const Endpoint endpoint = low.peer_connections.endpoint();
    for (int k = 0; k < kStrangers; k++)
      strangers.emplace_back(context).connect({asio::ip::make_address(endpoint.address), endpoint.port});
    const auto deadline = std::chrono::steady_clock::now() + milliseconds(1000);
    while (open_descriptors() < before + 2 * kStrangers && std::chrono::steady_clock::now() < deadline)
      std::this_thread::yield();
    ASSERT_GE(open_descriptors(), before + 2 * kStrangers) << "not all are held";
    const FewDescriptors limit(1);
    std::future<bool> connected = start_to_connect(high);
    accepted.get_future().get();
    EXPECT_TRUE(connected.get());
    EXPECT_EQ(exhausted, 0);
  });
}

TEST(PeerConnections, ListensWithinTheRangeOfPortsOrSaysWhichItTried) {
  EventLoop background;
  Settings settings;
  settings.port_range = "47101-47103";
  trace::RejectedConnections rejected_connections;
  std::vector<std::unique_ptr<PeerConnections>> taken;
  try {
    for (int k = 0; k < 4; k++) {
      taken.push_back(std::make_unique<PeerConnections>(background.context(), Rank::identity_of(0, 1), settings,
                                                        rejected_connections));
      EXPECT_THAT(taken.back()->endpoint().port, testing::AllOf(testing::Ge(47101), testing::Le(47103)));
    }
    FAIL() << "there are three ports for four";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::network);
    EXPECT_THAT(e.what(), HasSubstr("cannot listen on 127.0.0.1 ports 47101-47103: "));
  }
}

TEST(PeerConnections, WithoutADescriptorTheLimitIsNamedInsteadOfSettings) {
  EventLoop background;
  trace::RejectedConnections rejected_connections;
  const asio::ip::tcp::acceptor first(background.context());  // Asio's own descriptors exist from here on
  const FewDescriptors limit(0);
  try {
    const PeerConnections none(background.context(), Rank::identity_of(0, 1), {}, rejected_connections);
    FAIL() << "no descriptor is left";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "cannot listen on 127.0.0.1 at any port: Too many open files; raise the limit (ulimit -n)");
  }
}

}  // namespace
}  // namespace anello::net
