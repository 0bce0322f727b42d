// Server and clients over loopback, each rank in a thread.
#include "rendezvous/server/server.hpp"

#include <gmock/gmock.h>

#include <future>
#include <optional>
#include <thread>

#include "rendezvous/client/client.hpp"
#include "ring/base/text.hpp"
#include "tests/rendezvous/joining.hpp"
#include "tests/support/free_ports.hpp"
#include "tests/support/undisturbed.hpp"

namespace anello {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::Not;

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
  undisturbed(milliseconds(20), [&] {
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
  });
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
    client.fail(Error(ErrorCode::network, "no port is free"));
  });
  EXPECT_THAT(failed[0], AllOf(HasSubstr("rank 2 ("), HasSubstr("failed during start-up: no port is free")));
  EXPECT_EQ(failed[0], failed[1]);
}

TEST(Rendezvous, WhoEndsBetweenItsConnectionAndItsJoinIsNamed) {
  RendezvousServer server({});
  auto others = std::async(std::launch::async, [&] {
    return together(2, [&](int i) { RendezvousClient client(joining(server.port(), 3, i), ""); });
  });
  EXPECT_TRUE(eventually([&] { return server.stats().members == 2; }));
  {
    rendezvous::ServerConnection connection(joining(server.port(), 3, 2), {"default", ""}, {});
    connection.connect(std::chrono::steady_clock::now() + kPatience);
  }
  EXPECT_THAT(others.get(), Each(HasSubstr("rank 2 ended or lost its connection before it joined")));
}

TEST(Rendezvous, WhoOnlyTriesTheServerHasNotEnded) {
  RendezvousServer server({});
  auto other = std::async(std::launch::async, [&] { RendezvousClient client(joining(server.port(), 2, 0), ""); });
  EXPECT_TRUE(eventually([&] { return server.stats().members == 1; }));
  RendezvousClient::try_server(joining(server.port(), 2, 1), "");
  RendezvousClient client(joining(server.port(), 2, 1), "");
  EXPECT_NO_THROW(other.get());
}

TEST(Rendezvous, TheServersEndIsAnErrorNotAHang) {
  undisturbed(milliseconds(50), [&] {
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
  });
}

TEST(Rendezvous, TheServerMayComeLater) {
  const std::uint16_t port = consecutive_free_ports(1);
  auto client = std::async(std::launch::async, [&] {
    RendezvousClient early(joining(port, 1), "");
    early.leave();
  });
  std::this_thread::sleep_for(milliseconds(200));
  const RendezvousServer server({.port = port});
  EXPECT_NO_THROW(client.get());
}

TEST(Rendezvous, NobodyThereIsAnErrorWithWhatWasTried) {
  undisturbed(milliseconds(20), [&] {
    Settings settings = joining(consecutive_free_ports(1), 2);
    settings.start_timeout = milliseconds(300);
    EXPECT_THAT(together(1, [&](int) { RendezvousClient client(settings, ""); }),
                Each(AllOf(HasSubstr(text("no rendezvous at ", settings.rendezvous, " within 0.3 s")),
                           HasSubstr(text("tried ", settings.rendezvous, " (Connection refused)")))));
    const std::string name(64, 'x');  // too long for a name, so that no name server is asked
    settings.rendezvous = text(name, ":4000,", name, ":4001");
    EXPECT_THAT(together(1, [&](int) { RendezvousClient client(settings, ""); }),
                Each(AllOf(HasSubstr("tried to resolve 'xxxx"),
                           testing::Not(testing::ContainsRegex("to resolve.*to resolve")))));
    settings.rendezvous = "nonsense";
    EXPECT_THAT(together(1, [&](int) { RendezvousClient client(settings, ""); }),
                Each(HasSubstr("ANELLO_RENDEZVOUS='nonsense': no port")));
  });
}

TEST(Rendezvous, OnlyLoopbackIsListenedOnWithoutASecret) {
  const auto refusal = [](const std::string& address) {
    return together(1, [&](int) { RendezvousServer({.listen_address = address}); })[0];
  };
  for (const char* address : {"0.0.0.0", "::", "192.0.2.1"})
    EXPECT_THAT(refusal(address),
                AllOf(HasSubstr(address), HasSubstr("needs a secret"), HasSubstr("`anello secret FILE`")));
  const std::string name(64, 'x');  // too long for a name, so that no name server is asked
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
