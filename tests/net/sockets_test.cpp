#include "ring/net/sockets.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <memory>

namespace anello::net {
namespace {

using asio::ip::tcp;

asio::error_code connected(asio::io_context& context, tcp::socket& socket, const tcp::endpoint& where) {
  asio::error_code error = asio::error::would_block;
  asio::co_spawn(context, net::connect(socket, where, error), asio::detached);
  context.restart();
  context.run();
  return error;
}

TEST(Connect, ReachesWhoListens) {
  asio::io_context context;
  tcp::acceptor acceptor(context);
  listen(acceptor, {asio::ip::address_v4::loopback(), 0});
  tcp::socket socket(context, tcp::v4());
  EXPECT_FALSE(connected(context, socket, acceptor.local_endpoint()));
  EXPECT_EQ(socket.remote_endpoint(), acceptor.local_endpoint());
}

// The kernel may give a connecting socket the very port that it connects to.
TEST(Connect, ASocketThatWouldBeConnectedToItselfIsRefused) {
  asio::io_context context;
  tcp::socket socket(context, {asio::ip::address_v4::loopback(), 0});
  const tcp::endpoint own = socket.local_endpoint();
  EXPECT_EQ(connected(context, socket, own), asio::error::connection_refused);
  EXPECT_FALSE(socket.is_open());
  tcp::acceptor acceptor(context);
  EXPECT_NO_THROW(listen(acceptor, own)) << "the port is free";
}

rlim_t soft_limit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

TEST(RaisedFilesLimit, LastsAsLongAsTheLastOfThem) {
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit low{before.rlim_cur - 1, before.rlim_max}, other{before.rlim_cur - 2, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &low);
  {
    auto first = std::make_unique<RaisedFilesLimit>();
    const RaisedFilesLimit second;
    EXPECT_EQ(soft_limit(), low.rlim_max);
    first.reset();
    EXPECT_EQ(soft_limit(), low.rlim_max) << "the second one still needs it";
  }
  EXPECT_EQ(soft_limit(), low.rlim_cur);
  {
    const RaisedFilesLimit raised;
    setrlimit(RLIMIT_NOFILE, &other);
  }
  EXPECT_EQ(soft_limit(), other.rlim_cur) << "the program has set it meanwhile";
  setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace
}  // namespace anello::net
