#include "ring/services/http_page.hpp"

#include <gmock/gmock.h>

#include <anello/error.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <atomic>
#include <chrono>
#include <vector>

#include "ring/base/text.hpp"
#include "ring/net/event_loop.hpp"
#include "tests/support/free_ports.hpp"
#include "tests/support/resources.hpp"

namespace anello::services {
namespace {

using asio::ip::tcp;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

struct Served {
  net::EventLoop background;
  std::atomic<int> asked = 0;
  Metrics metrics;

  explicit Served(const std::string& host = "127.0.0.1")
      : metrics(background.context(), "ANELLO_METRICS", text(host, ":", consecutive_free_ports(1)), 0,
                [this] { return text("page ", ++asked, "\n"); }) {}
  ~Served() { background.stop(); }

  tcp::socket dial() {
    tcp::socket socket(context);
    socket.connect({asio::ip::address_v4::loopback(), metrics.port()});
    return socket;
  }
  static std::string answer_on(tcp::socket& socket) {
    std::string all;
    asio::error_code end;
    asio::read(socket, asio::dynamic_buffer(all), end);
    return all;
  }
  std::string ask(const std::string& request) {
    tcp::socket socket = dial();
    asio::error_code dropped;
    asio::write(socket, asio::buffer(request), dropped);
    return answer_on(socket);
  }

  asio::io_context context;
};

TEST(Metrics, AreAPageOverHttp) {
  Served served;
  EXPECT_THAT(served.ask("GET /metrics HTTP/1.1\r\nHost: here\r\nAccept: */*\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), HasSubstr("Content-Type: text/plain; version=0.0.4"),
                    HasSubstr("\r\nContent-Length: 7\r\n"), EndsWith("\r\n\r\npage 1\n")));
  EXPECT_THAT(served.ask("GET / HTTP/1.0\r\n\r\n"), EndsWith("page 2\n"));
}

TEST(Metrics, AreNotInheritedByProgramsThatAreStarted) {
  const std::set<std::string> before = inherited_sockets();
  const Served served;
  EXPECT_EQ(inherited_sockets(), before);
}

TEST(Metrics, OtherRequestsAreRefused) {
  Served served;
  EXPECT_THAT(served.ask("GET /etc/passwd HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(served.ask("POST /metrics HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(served.ask("\r\n\r\n"), StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(served.ask("GET \r\n\r\n"), StartsWith("HTTP/1.1 404 "));
  EXPECT_EQ(served.asked, 0);
}

TEST(Metrics, AClientThatSaysNothingOrTooMuchIsDropped) {
  Served served;
  std::vector<tcp::socket> silent;
  constexpr int kMoreThanAreServed = 70;
  for (int k = 0; k < kMoreThanAreServed; k++) silent.push_back(served.dial());
  EXPECT_EQ(served.ask(std::string(100'000, 'x')), "") << "it is too long";
  EXPECT_EQ(Served::answer_on(silent[0]), "") << "it made room";
  EXPECT_THAT(served.ask("GET /metrics HTTP/1.1\r\n\r\n"), EndsWith("page 1\n"));
}

TEST(Metrics, EachLocalRankHasAPortOfItsOwn) {
  const std::uint16_t port = consecutive_free_ports(2);
  net::EventLoop background;
  const Metrics second(background.context(), "ANELLO_METRICS", text("localhost:", port), 1,
                       [] { return std::string(); });
  EXPECT_EQ(second.port(), port + 1);
  background.stop();
}

TEST(Metrics, WhatCannotBeIsSaid) {
  Served first;
  const auto told = [&](const std::string& where, int above) -> std::string {
    net::EventLoop background;
    try {
      const Metrics metrics(background.context(), "ANELLO_METRICS", where, above, [] { return std::string(); });
    } catch (const Error& e) {
      return e.what();
    }
    return "nothing";
  };
  EXPECT_THAT(told(text("127.0.0.1:", first.metrics.port()), 0),
              AllOf(HasSubstr("ANELLO_METRICS='127.0.0.1:"), HasSubstr("in use")));
  EXPECT_THAT(told("9090", 0), HasSubstr("ANELLO_METRICS='9090': no port; expected host:port"));
  EXPECT_THAT(told("127.0.0.1:65535", 1), HasSubstr("no port is left for local rank 1"));
  EXPECT_THAT(told("no.such.host.invalid:9090", 0), HasSubstr("cannot listen at no.such.host.invalid:9090"));
}

}  // namespace
}  // namespace anello::services
