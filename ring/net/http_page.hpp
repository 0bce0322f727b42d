// Serves one page of text over HTTP, for Prometheus. Lives on the background thread. Whoever can reach the address can
// read the page; nothing that is sent is looked at but the first line.
// Source: RFC 9112; a connection carries one request.
#pragma once
#include <asio/awaitable.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <functional>
#include <string>
#include <string_view>

#include "ring/net/half_open.hpp"

namespace anello {

class Metrics {
 public:
  // Listens at "host:port" when it returns, on the port that is `above` higher; `page` is called for each request on
  // the background thread. Throws Error{configuration, network} that names `setting`, which said where.
  Metrics(asio::io_context& context, std::string_view setting, std::string_view where, int above,
          std::function<std::string()> page);

  unsigned short port() const { return acceptor_.local_endpoint().port(); }

 private:
  static constexpr std::size_t kMaxRequestBytes = 4096;
  static constexpr std::size_t kMaxClients = 64;  // at a time; the oldest makes room

  asio::awaitable<void> serve(asio::ip::tcp::socket socket);
  std::string answer(std::string_view request) const;

  std::function<std::string()> page_;
  asio::ip::tcp::acceptor acceptor_;
  HalfOpen clients_{kMaxClients};
};

}  // namespace anello
