// How two ranks of one host agree to share memory. Both sides are coroutines over loopback, or the test acts as one
// side.
#include "ring/net/shm_negotiation.hpp"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <anello/error.hpp>
#include <array>
#include <asio/co_spawn.hpp>
#include <asio/read.hpp>
#include <asio/use_future.hpp>
#include <asio/write.hpp>
#include <filesystem>
#include <fstream>

#include "ring/base/wire.hpp"
#include "ring/link/bell.hpp"
#include "ring/shm/fd_message.hpp"
#include "tests/support/loopback.hpp"

namespace anello::net {
namespace {

constexpr std::size_t kPipe = 4096;

struct Negotiating : Loopback {
  link::Bell bell;
  std::future<Negotiated> offer() {
    return asio::co_spawn(context, offer_memory(a, kPipe, bell.descriptor()), asio::use_future);
  }
  std::future<Negotiated> take() {
    return asio::co_spawn(context, take_memory(b, bell.descriptor()), asio::use_future);
  }
};

// The offering side's first message.
struct Offer {
  std::uint64_t pipe_bytes;
  std::string name, token;
};
Offer receive_offer(asio::ip::tcp::socket& socket) {
  std::string bytes(8 + 32 + 32, '\0');
  asio::read(socket, asio::buffer(bytes));
  Reader reader("offer", bytes);
  Offer offer{.pipe_bytes = reader.u64()};
  offer.name = reader.raw(32);
  offer.token = reader.raw(32);
  return offer;
}

// Counts the timers of event loops that are set in this process.
int timers() {
  int set = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fdinfo")) {
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);)
      set += line.starts_with("it_value:") && line != "it_value: (0, 0)";
  }
  return set;
}

TEST(ShmNegotiation, BothSidesGetALink) {
  Negotiating ranks;
  auto offered = ranks.offer(), taken = ranks.take();
  ranks.context.run();
  EXPECT_TRUE(offered.get().link);
  EXPECT_TRUE(taken.get().link);
}

// The other side's process may be stopped, and continue later.
TEST(ShmNegotiation, NoTimerRunsWhileTheOtherSideDoesNotAnswer) {
  const int before = timers();
  Negotiating ranks;
  const auto offered = ranks.offer();
  ranks.context.poll();
  EXPECT_EQ(timers(), before);
  Negotiating others;
  const auto taken = others.take();
  others.context.poll();
  EXPECT_EQ(timers(), before);
}

TEST(ShmNegotiation, WhatCannotBeIsDeclinedAndTheConnectionServes) {
  for (const std::uint64_t pipe_bytes : {std::uint64_t(0), std::uint64_t(100), std::uint64_t(1) << 40}) {
    Negotiating ranks;
    auto taken = ranks.take();
    Writer offer;
    offer.u64(pipe_bytes).raw(std::string(64, 'x'));
    asio::write(ranks.a, asio::buffer(offer.bytes()));
    ranks.context.run();
    const Negotiated result = taken.get();
    EXPECT_FALSE(result.link);
    EXPECT_NE(result.why_not, "");
    char answer = 1;
    asio::read(ranks.a, asio::buffer(&answer, 1));
    EXPECT_EQ(answer, 0);
  }
}

// A process that can list this host's Unix sockets connects first, many times. If the test may not change its user,
// there are only few such connections.
TEST(ShmNegotiation, StrangersOnTheUnixSocketChangeNothing) {
  Negotiating ranks;
  auto offered = ranks.offer();
  ranks.context.poll();
  const Offer offer = receive_offer(ranks.b);
  const bool as_another = geteuid() == 0;
  const pid_t stranger = fork();
  if (stranger == 0) {
    if (as_another && setuid(65534) != 0) _exit(1);
    std::vector<Descriptor> calls;
    for (int k = 0; k < (as_another ? 20 : 7); k++) calls.push_back(shm::connect_to(offer.name));
    _exit(0);
  }
  int status = -1;
  waitpid(stranger, &status, 0);
  ASSERT_EQ(status, 0);
  const Descriptor mine = shm::connect_to(offer.name);
  shm::send_fd_message(mine, offer.token, std::array{ranks.bell.descriptor()});
  const std::string yes(2, '\1');
  asio::write(ranks.b, asio::buffer(yes));
  ranks.context.restart();
  ranks.context.run();
  const Negotiated result = offered.get();
  EXPECT_TRUE(result.link) << result.why_not;
}

}  // namespace
}  // namespace anello::net
