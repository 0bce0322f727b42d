#include "ring/net/sockets.hpp"

#include <gtest/gtest.h>

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>

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

// As when the kernel gives a connecting socket the port that it connects to.
TEST(Connect, ASocketThatWouldBeConnectedToItselfIsRefused) {
  asio::io_context context;
  tcp::socket socket(context, {asio::ip::address_v4::loopback(), 0});
  const tcp::endpoint own = socket.local_endpoint();
  EXPECT_EQ(connected(context, socket, own), asio::error::connection_refused);
  EXPECT_FALSE(socket.is_open());
  tcp::acceptor acceptor(context);
  EXPECT_NO_THROW(listen(acceptor, own)) << "the port is free";
}

}  // namespace
}  // namespace anello::net
