// Connections to a rendezvous server that are not ranks of its job.
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/write.hpp>
#include <thread>

#include "rendezvous/client/client.hpp"
#include "rendezvous/server/server.hpp"
#include "ring/net/handshake.hpp"
#include "tests/rendezvous/joining.hpp"
#include "tests/support/resources.hpp"
#include "tests/support/undisturbed.hpp"

namespace anello {
namespace {

using asio::ip::tcp;
using std::chrono::milliseconds;
using testing::HasSubstr;

// A connection that is not a rank's.
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

TEST(Rendezvous, StrangersNeverCostARankItsPlace) {
  undisturbed(milliseconds(100), [&] {
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
  });
}

TEST(Rendezvous, OfTooManyThatSayNothingTheOldestMakesRoom) {
  undisturbed(milliseconds(100), [&] {
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
  });
}

// Lowers the limit of descriptors to the number of open ones, until this object is destroyed.
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
    client.leave();  // rank 1 leaves too early
  });
  EXPECT_THAT(thrown[0], AllOf(HasSubstr("rank 1 ("), HasSubstr("left")));
}

}  // namespace
}  // namespace anello
