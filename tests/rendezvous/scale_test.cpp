// Worlds of many ranks: counts the bytes of their start, and runs a start of many light clients.
#include <gmock/gmock.h>

#include <sys/resource.h>

#include <anello/version.hpp>
#include <asio/co_spawn.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#include <iostream>

#include "rendezvous/protocol/protocol.hpp"
#include "rendezvous/server/server.hpp"
#include "ring/algorithms/fingerprint.hpp"
#include "ring/base/config.hpp"
#include "ring/base/text.hpp"
#include "ring/net/auth.hpp"
#include "ring/net/handshake.hpp"
#include "ring/net/message_channel.hpp"
#include "ring/world/peer_info.hpp"
#include "tests/support/random.hpp"

namespace anello::rendezvous {
namespace {

using asio::ip::tcp;

constexpr int kRanksOfAHost = 8;
constexpr std::chrono::milliseconds kScalePatience{60000};

// The blob that `rank` sends to the others, for hosts as in clusters, with separate cores.
std::string blob_of(int rank) {
  const int host = rank / kRanksOfAHost;
  world::PeerInfo info{std::string(version()), algorithms::build_fingerprint()};
  info.endpoint.host = text("node", 10000 + host);
  info.endpoint.address = text("10.1.", host / 250, ".", host % 250);
  info.endpoint.port = std::uint16_t(40000 + rank % 9973);
  info.settings = wire_settings(Settings());
  info.node_rank = host;
  info.cores.allowed = std::string(16, '\0');
  info.cores.allowed[std::size_t(rank % kRanksOfAHost)] = '\xff';
  info.memory = text(10000 + host, "fae-7dec-11d0-a765-00a0c91e6bf6/4026531840/1000");
  return world::encode(info);
}

class BytesOfAStart : public testing::TestWithParam<int> {};

TEST_P(BytesOfAStart, HoldWhatIsEqualOnAllRanksOnce) {
  const int ranks = GetParam();
  Gathered gathered;
  std::size_t sent = 0, plain = 5;
  for (int rank = 0; rank < ranks; rank++) {
    gathered.blobs.push_back(blob_of(rank));
    sent += encode(Request(Contribution{gathered.blobs.back()})).size();
    plain += 4 + gathered.blobs.back().size();
  }
  const std::size_t reply = encode(Reply(gathered)).size();
  const auto world = [&](std::size_t received) { return double(sent + std::size_t(ranks) * received) / 1e6; };
  std::cout << ranks << " ranks: " << plain << " bytes to each if blobs travel as they are, " << reply
            << " as deltas; in all " << world(plain) << " and " << world(reply) << " MB\n";
  const std::size_t first = gathered.blobs.front().size(), hosts = std::size_t(ranks / kRanksOfAHost) + 1;
  const std::size_t max_of_a_host = 110, max_of_a_rank = 24;
  EXPECT_LE(reply, 64 + first + hosts * max_of_a_host + std::size_t(ranks) * max_of_a_rank);
}

INSTANTIATE_TEST_SUITE_P(Ranks, BytesOfAStart, testing::Values(4, 64, 1024, 16384));

// Many ranks' connections to a server, on one thread. They use the protocol and have no world.
class LightClients {
 public:
  LightClients(std::uint16_t port, std::string secret, int count)
      : server_(asio::ip::address_v4::loopback(), port), secret_(std::move(secret)), count_(count) {}

  // All ranks join, exchange and leave at the same time. Throws the error of any rank.
  void start() {
    for (int rank = 0; rank < count_; rank++)
      asio::co_spawn(context_, start_one(rank), [this](std::exception_ptr error) {
        if (error && !thrown_) thrown_ = std::move(error);
      });
    context_.run();
    if (thrown_) std::rethrow_exception(thrown_);
  }
  std::size_t received_bytes() const { return received_bytes_; }
  const std::vector<std::string>& blobs() const { return blobs_; }  // as rank 0 received them

 private:
  asio::awaitable<void> start_one(int rank) {
    tcp::socket socket(context_);
    while (!co_await opened(socket, rank)) socket = tcp::socket(context_);
    Join join{"node", "kernel", "127.0.0.1", std::uint32_t(rank)};
    join.rank = rank;
    join.size = count_;
    std::string reply;
    const std::string joining = net::framed(encode(Request(join)));
    co_await ask(socket, joining, reply);
    const std::string own_blob = net::framed(encode(Request(Contribution{blob_of(rank)})));
    co_await ask(socket, own_blob, reply);
    if (rank == 0) blobs_ = std::get<Gathered>(decode_reply(reply)).blobs;
    const std::string barrier = net::framed(encode(Request(Contribution{})));
    co_await ask(socket, barrier, reply);
    const std::string leaving = net::framed(encode(Request(Leave{})));
    co_await asio::async_write(socket, asio::buffer(leaving), asio::use_awaitable);
  }

  // Returns false if the server did not receive the handshake in time, as on a busy machine. The caller then tries
  // again, like RendezvousClient.
  asio::awaitable<bool> opened(tcp::socket& socket, int rank) {
    const net::Credentials credentials{"default", secret_};
    const net::Claim claim{net::Role::rendezvous, 0, rank, -1};
    try {
      co_await socket.async_connect(server_, asio::use_awaitable);
      co_await connect_handshake(socket, credentials, claim, kScalePatience);
      co_return true;
    } catch (const net::HandshakeError&) {
      if (std::chrono::steady_clock::now() > deadline_) throw;
      co_return false;
    }
  }

  asio::awaitable<void> ask(tcp::socket& socket, const std::string& request, std::string& reply) {
    co_await asio::async_write(socket, asio::buffer(request), asio::use_awaitable);
    reply = co_await net::read_message(socket, kMaxReplyBytes);
    received_bytes_ += reply.size();
  }

  const tcp::endpoint server_;
  const std::string secret_;  // empty in a build without authentication
  const int count_;
  const std::chrono::steady_clock::time_point deadline_ = std::chrono::steady_clock::now() + kScalePatience;
  asio::io_context context_;
  std::exception_ptr thrown_;
  std::size_t received_bytes_ = 0;
  std::vector<std::string> blobs_;
};

// Both ends of each connection are in this process, so a connection needs two descriptors.
void allow_descriptors(rlim_t count) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  ASSERT_GE(limit.rlim_max, count) << "the hard limit of open files (ulimit -Hn) is too low";
  limit.rlim_cur = std::max(limit.rlim_cur, count);
  setrlimit(RLIMIT_NOFILE, &limit);
}

// ANELLO_RANKS_AT_ONCE sets their number.
TEST(ManyClients, JoinExchangeAndLeave) {
  const auto given = environment("ANELLO_RANKS_AT_ONCE");
  const int ranks = given ? int(parse_number("ANELLO_RANKS_AT_ONCE", *given, 1, 16384)) : 256 / kSlowdown;
  allow_descriptors(rlim_t(2 * ranks + 100));
  const std::string secret = net::make_secret();
  RendezvousServer server(
      {.secret = secret, .size = ranks, .start_timeout = kScalePatience, .max_half_open = std::size_t(2 * ranks)});
  LightClients clients(server.port(), secret, ranks);
  const auto began = std::chrono::steady_clock::now();
  clients.start();
  ASSERT_TRUE(server.wait_until_over(1, kScalePatience));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  std::cout << ranks << " ranks joined, exchanged and left in " << took.count() << " s; they received "
            << double(clients.received_bytes()) / 1e6 << " MB\n";
  EXPECT_EQ(server.stats().worlds_formed, 1);
  ASSERT_EQ(clients.blobs().size(), std::size_t(ranks));
  for (int rank = 0; rank < ranks; rank++) EXPECT_EQ(clients.blobs()[std::size_t(rank)], blob_of(rank));
  EXPECT_LE(clients.received_bytes(), std::size_t(ranks) * std::size_t(ranks) * 64 + std::size_t(ranks) * 1024);
}

}  // namespace
}  // namespace anello::rendezvous
