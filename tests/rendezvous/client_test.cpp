// The client, with servers and hosts that are slow, silent or interrupted. Also the launcher's message to silent ranks.
#include "rendezvous/client/client.hpp"

#include <gmock/gmock.h>
#include <signal.h>

#include <asio/co_spawn.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#include <atomic>
#include <deque>
#include <functional>
#include <future>
#include <set>
#include <thread>

#include "rendezvous/client/server_search.hpp"
#include "rendezvous/server/abort_notice.hpp"
#include "rendezvous/server/server.hpp"
#include "ring/base/text.hpp"
#include "ring/net/handshake.hpp"
#include "ring/net/message_channel.hpp"
#include "tests/rendezvous/joins.hpp"
#include "tests/support/free_ports.hpp"
#include "tests/support/undisturbed.hpp"

namespace anello {
namespace {

using asio::ip::tcp;
using std::chrono::milliseconds;
using testing::HasSubstr;

const net::Credentials kCredentials{"default", ""};

Settings alone(std::uint16_t port, milliseconds start_timeout = milliseconds(30000)) {
  Settings settings;
  settings.rendezvous = text("127.0.0.1:", port);
  settings.size = 1;
  settings.start_timeout = start_timeout;
  return settings;
}

// A listener, and a context that runs coroutines to their end.
class Listener {
 public:
  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
  tcp::acceptor& acceptor() { return acceptor_; }
  void run(const std::function<asio::awaitable<void>()>& work) {
    std::exception_ptr thrown;
    asio::co_spawn(context_, work(), [&](std::exception_ptr error) { thrown = std::move(error); });
    context_.restart();
    context_.run();
    if (thrown) std::rethrow_exception(thrown);
  }

 private:
  asio::io_context context_;
  tcp::acceptor acceptor_{context_, {asio::ip::address_v4::loopback(), 0}};
};

asio::awaitable<rendezvous::Request> next_request(tcp::socket& socket) {
  co_return rendezvous::decode_request(co_await net::read_message(socket, rendezvous::kMaxRequestBytes));
}

asio::awaitable<tcp::socket> accept_one(tcp::acceptor& acceptor) {
  tcp::socket socket = co_await acceptor.async_accept(asio::use_awaitable);
  co_await accept_handshake(socket, kCredentials, [](const net::Claim&) { return std::nullopt; });
  co_return socket;
}

std::string thrown_by(const std::function<void()>& attempt) {
  try {
    attempt();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

TEST(Client, APortThatAcceptsAndIsMuteDoesNotExtendTheStart) {
  undisturbed(milliseconds(20), [&] {
    Listener mute;
    EXPECT_THAT(thrown_by([&] { RendezvousClient client(alone(mute.port(), milliseconds(300)), ""); }),
                testing::AllOf(HasSubstr("within 0.3 s; tried"), HasSubstr("(no answer within 0.")));
  });
}

TEST(Client, JoinsAtTheOneOfSeveralAddressesThatHasTheJob) {
  undisturbed(milliseconds(20), [&] {
    const RendezvousServer other({.job = "another"}), mine({});
    Settings settings = alone(mine.port());
    settings.rendezvous = text("127.0.0.1:1,127.0.0.1:", other.port(), ",", settings.rendezvous);
    RendezvousClient client(settings, "");
    EXPECT_EQ(client.identity().size, 1);
    client.leave();
    EXPECT_TRUE(mine.wait_until_over(1, milliseconds(60000)));
    settings.rendezvous = text("127.0.0.1:", other.port(), ",127.0.0.1:1");
    settings.start_timeout = milliseconds(1000);
    EXPECT_THAT(thrown_by([&] {
                  RendezvousClient nowhere(settings, "", {"a job", false});
                }),
                testing::AllOf(HasSubstr("this is not job 'default'"), HasSubstr("127.0.0.1:1 (Connection refused)"),
                               HasSubstr("a rank of a job should run it")));
  });
}

// A mute address does not answer, for example because a firewall drops packets, or because a program does not respond.
TEST(Client, MuteAddressesTakeNoTimeFromOneThatRefuses) {
  undisturbed(milliseconds(100), [&] {
    std::deque<Listener> mute(8);
    const std::uint16_t port = consecutive_free_ports(1);
    Settings settings = alone(port);
    for (const Listener& one : mute) settings.rendezvous += text(",127.0.0.1:", one.port());
    auto joined = std::async(std::launch::async, [&] {
      const RendezvousClient client(settings, "");
      return std::chrono::steady_clock::now();
    });
    std::this_thread::sleep_for(milliseconds(2000));
    const RendezvousServer late({.port = port});
    const auto began = std::chrono::steady_clock::now();
    EXPECT_LT(joined.get() - began, milliseconds(1000));
  });
}

std::vector<tcp::endpoint> dead_and_good(const std::string&, std::uint16_t, asio::error_code&) {
  return {{asio::ip::make_address("127.0.0.2"), 0}, {asio::ip::address_v4::loopback(), 0}};
}

// An example is a name with an AAAA record for an address that cannot be reached, and an A record for one that can.
TEST(Client, ADeadAddressOfANameTakesNoTimeFromTheOther) {
  undisturbed(milliseconds(100), [&] {
    const std::uint16_t port = consecutive_free_ports(1);
    asio::io_context context;
    const tcp::acceptor dead(context, {asio::ip::make_address("127.0.0.2"), port});
    rendezvous::ServerSearch search(
        context, {.addresses = {{"a.name", port}},
                  .prove = [](tcp::socket& socket) { return connect_handshake(socket, kCredentials, net::Claim{}); },
                  .look_up = dead_and_good});
    auto found = std::async(std::launch::async, [&] {
      EXPECT_EQ(search.find(std::chrono::steady_clock::now() + milliseconds(30000)),
                rendezvous::ServerSearch::Outcome::found);
      return std::chrono::steady_clock::now();
    });
    std::this_thread::sleep_for(milliseconds(1500));
    const RendezvousServer late({.port = port});
    const auto began = std::chrono::steady_clock::now();
    EXPECT_LT(found.get() - began, milliseconds(1000));
  });
}

TEST(Client, DoesNotWaitForAServerThatListenedAndHasEnded) {
  std::string gone;
  {
    const RendezvousServer server({});
    gone = text("127.0.0.1:", server.port());
  }
  Settings settings = alone(1, milliseconds(86400000));
  settings.rendezvous = gone;
  EXPECT_THAT(
      thrown_by([&] {
        RendezvousClient client(settings, "", {"a job", false, true});
      }),
      HasSubstr("the rank of a job that ran the rendezvous has ended, or a firewall rejects connections to it; tried " +
                gone));
}

TEST(Client, JoinsAgainIfTheConnectionEndsBefore) {
  Listener server;
  std::thread serving([&] {
    server.run([&]() -> asio::awaitable<void> {
      { const tcp::socket dropped = co_await accept_one(server.acceptor()); }
      tcp::socket socket = co_await accept_one(server.acceptor());
      const rendezvous::Request first = co_await next_request(socket), second = co_await next_request(socket);
      EXPECT_TRUE(std::holds_alternative<rendezvous::Arrive>(first));
      EXPECT_TRUE(std::holds_alternative<rendezvous::Join>(second));
      const std::string reply =
          net::framed(rendezvous::encode(rendezvous::Reply(rendezvous::Assigned{.generation = 5})));
      co_await asio::async_write(socket, asio::buffer(reply), asio::use_awaitable);
    });
  });
  EXPECT_EQ(thrown_by([&] {
              const RendezvousClient client(alone(server.port()), "");
              EXPECT_EQ(client.identity().generation, 5u);
            }),
            "nothing");
  serving.join();
}

// A rank of an earlier run must not get into a later run that has the same job, secret and ports.
TEST(Client, KnowsWhichServerBroughtItsWorldTogether) {
  std::set<std::uint64_t> incarnations;
  for (int run = 0; run < 2; run++) {
    const RendezvousServer server({.size = 1});
    incarnations.insert(RendezvousClient(alone(server.port()), "").identity().incarnation);
  }
  EXPECT_EQ(incarnations.size(), 2u);
  EXPECT_FALSE(incarnations.contains(0));
}

// A busy host may delay a process between its handshake and its request.
TEST(Client, MayJoinLaterThanAHandshakeMayTake) {
  const RendezvousServer server({.size = 1});
  Listener rank;
  rank.run([&]() -> asio::awaitable<void> {
    tcp::socket socket(rank.acceptor().get_executor());
    const tcp::endpoint where(asio::ip::address_v4::loopback(), server.port());
    co_await socket.async_connect(where, asio::use_awaitable);
    co_await connect_handshake(socket, kCredentials, net::Claim{});
    std::this_thread::sleep_for(net::kHandshakeLimit + milliseconds(100));
    const std::string join = net::framed(rendezvous::encode(rendezvous::Request(rendezvous::on("a", -1, 1))));
    co_await asio::async_write(socket, asio::buffer(join), asio::use_awaitable);
    const std::string body = co_await net::read_message(socket, rendezvous::kMaxReplyBytes);
    EXPECT_TRUE(std::holds_alternative<rendezvous::Assigned>(rendezvous::decode_reply(body)));
  });
  for (const std::uint64_t count : server.stats().rejected_connections) EXPECT_EQ(count, 0u);
}

TEST(Client, ASignalDoesNotEndACheck) {
  struct sigaction quiet {};
  quiet.sa_handler = [](int) {};
  struct sigaction before {};
  sigaction(SIGUSR2, &quiet, &before);
  const RendezvousServer server({.size = 1});
  RendezvousClient client(alone(server.port()), "");
  std::atomic<bool> done = false;
  std::thread profiler([&done, waiting = pthread_self()] {
    while (!done) {
      pthread_kill(waiting, SIGUSR2);
      std::this_thread::sleep_for(milliseconds(5));
    }
  });
  EXPECT_EQ(thrown_by([&] { client.check(milliseconds(200)); }), "nothing");
  done = true;
  profiler.join();
  client.leave();
  sigaction(SIGUSR2, &before, nullptr);
}

TEST(Client, MayTryTheServerAndLeaveNoTrace) {
  const RendezvousServer server({.size = 1});
  EXPECT_EQ(thrown_by([&] { RendezvousClient::try_server(alone(server.port()), ""); }), "nothing");
  RendezvousClient client(alone(server.port()), "");
  client.leave();
  for (const std::uint64_t count : server.stats().rejected_connections) EXPECT_EQ(count, 0u);
  Settings other = alone(server.port());
  other.job = "another";
  EXPECT_THAT(thrown_by([&] { RendezvousClient::try_server(other, ""); }), HasSubstr("this is not job 'another'"));
}

TEST(AbortNotice, IsNotDelayedByEachRankThatIsStopped) {
  constexpr int kMute = 40;
  Listener mute, alive;
  rendezvous::Roster::Formed world{1, kMute + 1, {}};
  for (int rank = 0; rank < kMute; rank++) world.ranks.push_back({rank, "127.0.0.1", mute.port()});
  world.ranks.push_back({kMute, "127.0.0.1", alive.port()});
  std::thread stopped([&, began = std::chrono::steady_clock::now()] {
    alive.run([&]() -> asio::awaitable<void> {
      tcp::socket socket = co_await accept_one(alive.acceptor());
      const std::string notice = co_await net::read_message(socket, 8192);
      EXPECT_THAT(notice, HasSubstr("enough"));
      EXPECT_LT(std::chrono::steady_clock::now() - began, kMute * milliseconds(300)) << "one after another";
    });
  });
  mute.run([&] { return rendezvous::send_abort_notice(world, kCredentials, {ErrorCode::aborted, -1, "enough"}); });
  stopped.join();
}

}  // namespace
}  // namespace anello
