// Server and clients over loopback, a thread a rank.
#include "rendezvous/server.hpp"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include <asio/write.hpp>
#include <future>
#include <optional>
#include <thread>

#include "rendezvous/client.hpp"
#include "ring/base/text.hpp"
#include "ring/net/handshake.hpp"
#include "tests/support/resources.hpp"

namespace anello {
namespace {

using asio::ip::tcp;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::Not;

// Long enough for a loaded machine; no test waits for it.
constexpr milliseconds kPatience{30000};

Settings joining(std::uint16_t port, int size, int rank = -1) {
  Settings settings;
  settings.rendezvous = text("127.0.0.1:", port);
  settings.size = size;
  settings.rank = rank;
  settings.start_timeout = kPatience;
  return settings;
}

// What each of `ranks` threads threw, or an empty string.
std::vector<std::string> together(int ranks, const std::function<void(int)>& program) {
  std::vector<std::future<std::string>> threads;
  threads.reserve(std::size_t(ranks));
  for (int i = 0; i < ranks; i++)
    threads.push_back(std::async(std::launch::async, [&program, i]() -> std::string {
      try {
        program(i);
        return {};
      } catch (const Error& error) {
        return error.what();
      }
    }));
  std::vector<std::string> thrown;
  thrown.reserve(threads.size());
  for (auto& thread : threads) thrown.push_back(thread.get());
  return thrown;
}

bool eventually(const std::function<bool()>& condition) {
  for (const auto end = steady_clock::now() + kPatience; steady_clock::now() < end;) {
    if (condition()) return true;
    std::this_thread::sleep_for(milliseconds(5));
  }
  return false;
}

// Somebody who connects and has other things in mind.
class Visitor {
 public:
  explicit Visitor(std::uint16_t port) { socket_.connect({asio::ip::address_v4::loopback(), port}); }
  void say(std::string_view bytes) {
    asio::error_code ignored;
    asio::write(socket_, asio::buffer(bytes), ignored);
  }

 private:
  asio::io_context context_;
  tcp::socket socket_{context_};
};

std::vector<std::unique_ptr<Visitor>> silent_strangers(std::size_t count, std::uint16_t port) {
  std::vector<std::unique_ptr<Visitor>> strangers(count);
  for (auto& stranger : strangers) stranger = std::make_unique<Visitor>(port);
  return strangers;
}

TEST(Rendezvous, RanksMeetExchangeAndLeaveGenerationAfterGeneration) {
  RendezvousServer server({.size = 4});
  for (std::uint32_t generation = 1; generation <= 3; generation++) {
    std::mutex mutex;
    std::set<int> ranks;
    EXPECT_THAT(together(4,
                         [&](int) {
                           RendezvousClient client(joining(server.port(), 4), "");
                           const Identity& me = client.identity();
                           EXPECT_EQ(me.generation, generation);
                           EXPECT_EQ(me.size, 4);
                           EXPECT_EQ(me.local_rank, me.rank);
                           EXPECT_EQ(me.local_size, 4);
                           EXPECT_EQ(me.node_count, 1);
                           EXPECT_EQ(me.address, "127.0.0.1");
                           EXPECT_FALSE(me.host.empty());
                           for (int round = 0; round < 3; round++) {
                             const auto blobs = client.exchange(text(round, " of ", me.rank));
                             for (int rank = 0; rank < 4; rank++)
                               EXPECT_EQ(blobs.at(std::size_t(rank)), text(round, " of ", rank));
                           }
                           client.leave();
                           const std::lock_guard lock(mutex);
                           ranks.insert(me.rank);
                         }),
                Each(""));
    EXPECT_EQ(ranks.size(), 4u);
    EXPECT_TRUE(eventually([&] { return server.stats().worlds_formed == int(generation); }));
  }
  EXPECT_THAT(server.stats().rejected_connections, Each(0u));
}

TEST(Rendezvous, LargeBlobsArrive) {
  RendezvousServer server({.size = 3});
  EXPECT_THAT(together(3,
                       [&](int i) {
                         RendezvousClient client(joining(server.port(), 3, i), "");
                         const auto blobs = client.exchange(std::string(rendezvous::kMaxBlobBytes, char('a' + i)));
                         for (int rank = 0; rank < 3; rank++)
                           EXPECT_EQ(blobs.at(std::size_t(rank)),
                                     std::string(rendezvous::kMaxBlobBytes, char('a' + rank)));
                         EXPECT_THROW(client.exchange(std::string(rendezvous::kMaxBlobBytes + 1, 'x')), Error);
                         client.exchange({});
                         client.leave();
                       }),
              Each(""));
}

TEST(Rendezvous, GivenRanksAreHonoured) {
  RendezvousServer server({});
  EXPECT_THAT(together(3,
                       [&](int i) {
                         RendezvousClient client(joining(server.port(), 3, 2 - i), "");
                         EXPECT_EQ(client.identity().rank, 2 - i);
                         client.leave();
                       }),
              Each(""));
}

TEST(Rendezvous, WorksOverIpv6) {
  std::optional<RendezvousServer> server;
  try {
    server.emplace(ServerOptions{.listen_address = "::1", .size = 1});
  } catch (const Error&) {
    GTEST_SKIP() << "no IPv6 here";
  }
  Settings settings = joining(0, 1);
  settings.rendezvous = text("[::1]:", server->port());
  RendezvousClient client(settings, "");
  EXPECT_EQ(client.identity().address, "::1");
  client.leave();
}

TEST(Rendezvous, TwoClaimantsOfARankAreToldOfEachOther) {
  RendezvousServer server({});
  EXPECT_THAT(together(2, [&](int) { RendezvousClient client(joining(server.port(), 3, 1), ""); }),
              Each(HasSubstr("rank 1 is claimed twice")));
}

TEST(Rendezvous, TheMissingAreNamedWhenTimeIsUp) {
  RendezvousServer by_server({.start_timeout = milliseconds(300)});
  EXPECT_THAT(together(2, [&](int i) { RendezvousClient client(joining(by_server.port(), 4, 2 * i), ""); }),
              Each(AllOf(HasSubstr("only 2 of 4 ranks joined within 0.3 s"), HasSubstr("missing ranks 1, 3"))));
  RendezvousServer by_rank({});
  EXPECT_THAT(together(1,
                       [&](int) {
                         Settings settings = joining(by_rank.port(), 2, 1);
                         settings.start_timeout = milliseconds(500);
                         RendezvousClient client(settings, "");
                       }),
              Each(AllOf(HasSubstr("only 1 of 2 ranks joined within"), HasSubstr("missing rank 0"))));
}

TEST(Rendezvous, WhoEndsOrFailsDuringStartUpIsNamed) {
  RendezvousServer server({});
  const auto ended = together(3, [&](int i) {
    RendezvousClient client(joining(server.port(), 3, i), "");
    if (i < 2) client.exchange({});
  });
  EXPECT_THAT(ended[0], AllOf(HasSubstr("rank 2 ("), HasSubstr("lost its connection during start-up")));
  EXPECT_EQ(ended[0], ended[1]);
  EXPECT_EQ(ended[2], "");
  EXPECT_TRUE(eventually([&] { return server.stats().generation == 2; }));
  const auto failed = together(3, [&](int i) {
    RendezvousClient client(joining(server.port(), 3, i), "");
    if (i < 2) client.exchange({});
    client.fail("no port is free");
  });
  EXPECT_THAT(failed[0], AllOf(HasSubstr("rank 2 ("), HasSubstr("failed during start-up: no port is free")));
  EXPECT_EQ(failed[0], failed[1]);
}

TEST(Rendezvous, TheServersEndIsAnErrorNotAHang) {
  auto server = std::make_unique<RendezvousServer>(ServerOptions{});
  const std::uint16_t port = server->port();
  std::thread ending([&] {
    EXPECT_TRUE(eventually([&] { return server->stats().members == 2; }));
    server.reset();
  });
  Settings settings = joining(port, 3);
  settings.start_timeout = milliseconds(1000);
  EXPECT_THAT(together(2, [&](int) { RendezvousClient client(settings, ""); }),
              Each(HasSubstr(text("rendezvous at 127.0.0.1:", port))));
  ending.join();
}

TEST(Rendezvous, TheServerMayComeLater) {
  const std::uint16_t port = RendezvousServer({}).port();
  auto client = std::async(std::launch::async, [&] {
    RendezvousClient early(joining(port, 1), "");
    early.leave();
  });
  std::this_thread::sleep_for(milliseconds(200));
  const RendezvousServer server({.port = port});
  EXPECT_NO_THROW(client.get());
}

TEST(Rendezvous, NobodyThereIsAnErrorWithWhatWasTried) {
  Settings settings = joining(RendezvousServer({}).port(), 2);
  settings.start_timeout = milliseconds(300);
  EXPECT_THAT(together(1, [&](int) { RendezvousClient client(settings, ""); }),
              Each(AllOf(HasSubstr(text("no rendezvous at ", settings.rendezvous, " within 0.3 s")),
                         HasSubstr(text("tried ", settings.rendezvous, " (Connection refused)")))));
  const std::string name(64, 'x');  // no legal name: no name server is asked
  settings.rendezvous = text(name, ":4000,", name, ":4001");
  EXPECT_THAT(
      together(1, [&](int) { RendezvousClient client(settings, ""); }),
      Each(AllOf(HasSubstr("tried to resolve 'xxxx"), testing::Not(testing::ContainsRegex("to resolve.*to resolve")))));
  settings.rendezvous = "nonsense";
  EXPECT_THAT(together(1, [&](int) { RendezvousClient client(settings, ""); }),
              Each(HasSubstr("ANELLO_RENDEZVOUS='nonsense': no port")));
}

TEST(Rendezvous, OnlyLoopbackIsListenedOnWithoutASecret) {
  const auto refusal = [](const std::string& address) {
    return together(1, [&](int) { RendezvousServer({.listen_address = address}); })[0];
  };
  for (const char* address : {"0.0.0.0", "::", "192.0.2.1"})
    EXPECT_THAT(refusal(address),
                AllOf(HasSubstr(address), HasSubstr("needs a secret"), HasSubstr("`anello secret FILE`")));
  const std::string name(64, 'x');  // no legal name: no name server is asked
  EXPECT_THAT(refusal(name), AllOf(HasSubstr("or a name that it resolves, not 'xxxx"), Not(HasSubstr("--port"))));
  EXPECT_THAT(refusal(name + ":4455"), testing::EndsWith("; give its port apart: --port 4455"));
  EXPECT_THAT(refusal(name + ":4455x"), Not(HasSubstr("--port")));
  EXPECT_THAT(RendezvousServer({.listen_address = "localhost"}).address(), testing::AnyOf("127.0.0.1", "::1"));
  EXPECT_THAT(together(1,
                       [](int) {
                         const RendezvousServer first({});
                         RendezvousServer({.port = first.port()});
                       }),
              Each(HasSubstr("cannot listen on 127.0.0.1:")));
}

TEST(Rendezvous, StrangersNeverCostARankItsPlace) {
  RendezvousServer server({.size = 3});
  const auto silent = silent_strangers(20, server.port());
  std::atomic<bool> done = false;
  std::thread noise([&] {
    for (int i = 0; !done || i < 6; i++) {
      Visitor stranger(server.port());
      if (i % 3 == 0) stranger.say("GET / HTTP/1.1\r\n\r\n");
      if (i % 3 == 1) stranger.say(std::string("ANLO\1\0\1\xff\xff", 9));
      std::this_thread::sleep_for(milliseconds(1));
    }
  });
  EXPECT_THAT(together(4,
                       [&](int i) {
                         if (i == 3) {
                           Settings other = joining(server.port(), 3);
                           other.job = "another";
                           RendezvousClient client(other, "");
                         }
                         RendezvousClient client(joining(server.port(), 3, i), "");
                         client.exchange({});
                         client.leave();
                       }),
              testing::ElementsAre("", "", "", HasSubstr("this is not job 'another'")));
  done = true;
  noise.join();
  EXPECT_TRUE(eventually([&] { return server.stats().half_open == 0; }));
  const trace::RejectedConnections::Counts counts = server.stats().rejected_connections;
  for (const trace::RejectReason kind :
       {trace::RejectReason::noise, trace::RejectReason::oversized, trace::RejectReason::gone})
    EXPECT_GT(counts[std::size_t(kind)], 0u) << name(kind);
  EXPECT_EQ(counts[std::size_t(trace::RejectReason::silent)], 20u);
  EXPECT_EQ(counts[std::size_t(trace::RejectReason::job)], 1u);
}

TEST(Rendezvous, OfTooManyThatSayNothingTheOldestMakesRoom) {
  RendezvousServer server({.size = 1, .max_half_open = 4});
  const auto silent = silent_strangers(6, server.port());
  EXPECT_TRUE(eventually(
      [&] { return server.stats().rejected_connections[std::size_t(trace::RejectReason::crowded_out)] == 2; }));
  EXPECT_EQ(server.stats().half_open, 4u);
  const auto begun = std::chrono::steady_clock::now();
  RendezvousClient client(joining(server.port(), 1), "");
  client.leave();
  EXPECT_LT(std::chrono::steady_clock::now() - begun, net::kHandshakeLimit) << "it waited for the silent ones";
  EXPECT_EQ(server.stats().rejected_connections[std::size_t(trace::RejectReason::crowded_out)], 3u);
}

// Lowers the limit on descriptors to what is open, until it is destroyed.
class NoMoreFiles {
 public:
  NoMoreFiles() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const int lowest_free = dup(0);
    close(lowest_free);
    const rlimit limit{rlim_t(lowest_free), before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  ~NoMoreFiles() { setrlimit(RLIMIT_NOFILE, &before_); }
  NoMoreFiles(const NoMoreFiles&) = delete;
  NoMoreFiles& operator=(const NoMoreFiles&) = delete;

 private:
  rlimit before_{};
};

TEST(Rendezvous, AProgramThatIsStartedInheritsNoConnection) {
  const std::set<std::string> before = inherited_sockets();
  RendezvousServer server({.size = 1});
  RendezvousClient client(joining(server.port(), 1), "");
  EXPECT_EQ(inherited_sockets(), before);
  client.leave();
}

TEST(Rendezvous, SurvivesRunningOutOfDescriptors) {
  RendezvousServer server({.size = 1});
  asio::io_context context;
  tcp::socket waiting(context, tcp::v4());
  {
    const NoMoreFiles limit;
    waiting.connect({asio::ip::address_v4::loopback(), server.port()});
    std::this_thread::sleep_for(milliseconds(250));
    EXPECT_EQ(server.stats().half_open, 0u);
  }
  EXPECT_TRUE(eventually([&] { return server.stats().half_open == 1; }));
  RendezvousClient client(joining(server.port(), 1), "");
  client.leave();
}

TEST(Rendezvous, WhoSpeaksOutOfTurnIsDropped) {
  RendezvousServer server({.size = 2});
  const auto thrown = together(2, [&](int i) {
    RendezvousClient client(joining(server.port(), 2, i), "");
    if (i == 0) client.exchange({});
    client.leave();  // rank 1 too early
  });
  EXPECT_THAT(thrown[0], AllOf(HasSubstr("rank 1 ("), HasSubstr("left")));
}

TEST(Rendezvous, ARankThatIsTooManyIsTurnedAwayAlone) {
  RendezvousServer server({.size = 1});
  RendezvousClient first(joining(server.port(), 1), "");
  EXPECT_THAT(together(1, [&](int) { RendezvousClient second(joining(server.port(), 1), ""); }),
              Each(HasSubstr("the world of 1 is complete")));
  EXPECT_EQ(first.exchange("still here").at(0), "still here");
  first.leave();
}

TEST(Rendezvous, ASecretIsNeededByAllOrNone) {
  std::optional<RendezvousServer> server;
  try {
    server.emplace(ServerOptions{.secret = "open sesame", .size = 2});
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    GTEST_SKIP() << "built without OpenSSL";
  }
  const auto thrown = together(4, [&](int i) {
    RendezvousClient client(joining(server->port(), 2), i < 2 ? "open sesame" : i == 2 ? "open barley" : "");
    EXPECT_EQ(client.identity().secret, "open sesame");
    client.exchange({});
    client.leave();
  });
  EXPECT_THAT(thrown, testing::ElementsAre("", "", HasSubstr("the secrets of the two sides differ"),
                                           HasSubstr("the job has a secret; see ANELLO_SECRET_FILE")));
}

TEST(Rendezvous, AnInterfaceMayBeChosen) {
  RendezvousServer server({.size = 1});
  Settings settings = joining(server.port(), 1);
  settings.iface = "=no-such-interface";
  EXPECT_THAT(together(1, [&](int) { RendezvousClient client(settings, ""); }),
              Each(AllOf(HasSubstr("ANELLO_IFACE='=no-such-interface'"), HasSubstr("(127.0.0.1)"))));
  settings.iface = "lo";
  RendezvousClient client(settings, "");
  EXPECT_EQ(client.identity().address, "127.0.0.1");
  client.leave();
}

}  // namespace
}  // namespace anello
