// The loop that accepts connections at a listener: it accepts every connection, in order, however many there are.
#include "ring/net/accept.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/read.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#include <deque>
#include <optional>

namespace anello::net {
namespace {

using asio::ip::tcp;

// Clients each of which has sent a byte before anything accepts its connection.
struct Doorstep {
  asio::io_context context;
  tcp::acceptor acceptor{context, {asio::ip::address_v4::loopback(), 0}};
  std::deque<tcp::socket> clients;
  trace::RejectedConnections rejected_connections;
  std::size_t inside = 0, max_inside = 0;
  std::string heard;

  void knock(char says) {
    clients.emplace_back(context).connect(acceptor.local_endpoint());
    asio::write(clients.back(), asio::buffer(&says, 1));
  }

  asio::awaitable<void> hear(tcp::socket client) {
    max_inside = std::max(max_inside, ++inside);
    char says = 0;
    asio::error_code error;
    co_await asio::async_read(client, asio::buffer(&says, 1), asio::redirect_error(asio::use_awaitable, error));
    inside--;
    heard += says;
    if (says == '?') rejected_connections.count(trace::RejectReason::noise);
  }

  // Accepts connections until this number of bytes has been read.
  void open(std::size_t count) {
    const auto take = [this](tcp::socket client) { asio::co_spawn(context, hear(std::move(client)), asio::detached); };
    asio::co_spawn(context, accept_each(acceptor, {"the test", [] {}, take, &rejected_connections}), asio::detached);
    hear_until(count);
  }
  void hear_until(std::size_t count) {
    while (heard.size() < count && context.run_one_for(std::chrono::seconds(10)) > 0) {
    }
  }
};

TEST(Accept, EachConnectionIsReadBeforeTheNextIsTaken) {
  Doorstep doorstep;
  std::string all;
  for (int k = 0; k < 100; k++) all += char('@' + k % 60);
  for (const char says : all) doorstep.knock(says);
  doorstep.open(all.size());
  EXPECT_EQ(doorstep.heard, all);
  EXPECT_LE(doorstep.max_inside, 2U)
      << "otherwise a limit on unread connections would close connections that have sent everything";
}

TEST(Accept, StrangersDoNotKeepRanksOut) {
  Doorstep doorstep;
  for (int k = 0; k < 20; k++) doorstep.knock('?');
  doorstep.open(20);
  for (std::size_t k = 21; k < 30; k++) {
    doorstep.knock(k % 2 == 0 ? '?' : '.');
    doorstep.hear_until(k);
    EXPECT_EQ(doorstep.heard.size(), k);
  }
}

// While hostile connections come, other connections wait a little; afterwards they do not wait.
TEST(Accept, OthersWaitALittleWhileStrangersCome) {
  for (const char first : {'.', '?'}) {
    bool in_time = false;
    for (int attempt = 0; attempt < 100 && !in_time; attempt++) {
      Doorstep doorstep;
      const auto before = std::chrono::steady_clock::now();
      doorstep.knock(first);
      doorstep.open(1);
      doorstep.context.poll();
      doorstep.knock('.');
      doorstep.context.poll();
      const std::size_t heard = doorstep.heard.size();
      in_time = std::chrono::steady_clock::now() - before < kGathering;
      if (in_time) {
        EXPECT_EQ(heard, first == '?' ? 1U : 2U) << first;
      }
      doorstep.hear_until(2);
      EXPECT_EQ(doorstep.heard.size(), 2U);
    }
    EXPECT_TRUE(in_time) << "this machine was never fast enough";
  }
}

// If each connection gets a descriptor, no connection has to be closed to make room for another.
TEST(Accept, TheLastDescriptorIsEnoughForTheLastConnection) {
  Doorstep doorstep;
  doorstep.knock('.');
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const int last = dup(0);
  close(last);
  const rlimit limit{rlim_t(last) + 1, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &limit);
  std::optional<tcp::socket> inside;
  const auto take = [&](tcp::socket client) { inside = std::move(client); };
  int made_room = 0;
  asio::co_spawn(doorstep.context, accept_each(doorstep.acceptor, {"the test", [&] { made_room++; }, take}),
                 asio::detached);
  doorstep.context.run_for(std::chrono::milliseconds(100));
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_TRUE(inside);
  EXPECT_EQ(made_room, 0);
}

// A flood of connections at the limit of open files must not fill the log.
TEST(Accept, FailuresWithConnectionsBetweenThemAreOneWarning) {
  constexpr int kTimes = 5;
  Doorstep doorstep;
  for (int k = 0; k < kTimes; k++) doorstep.knock('.');
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const int first_free = dup(0);
  close(first_free);
  const auto forbid = [&] {
    const rlimit none{rlim_t(first_free), before.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
  };
  int failures = 0;
  const auto allow = [&] {
    failures++;
    setrlimit(RLIMIT_NOFILE, &before);
  };
  std::deque<tcp::socket> inside;
  const auto take = [&](tcp::socket client) {
    inside.push_back(std::move(client));
    forbid();
  };
  asio::co_spawn(doorstep.context, accept_each(doorstep.acceptor, {"the test", allow, take}), asio::detached);
  ::testing::internal::CaptureStderr();
  forbid();
  while (inside.size() < kTimes && doorstep.context.run_one_for(std::chrono::seconds(10)) > 0) {
  }
  setrlimit(RLIMIT_NOFILE, &before);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(failures, kTimes);
  const std::size_t warning = said.find("the test cannot accept connections");
  ASSERT_NE(warning, std::string::npos) << said;
  EXPECT_EQ(said.find("cannot accept", warning + 10), std::string::npos) << said;
  EXPECT_NE(said.find("raise the limit (ulimit -n)"), std::string::npos) << said;
}

}  // namespace
}  // namespace anello::net
