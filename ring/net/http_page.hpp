// Serves one page of text over HTTP, for Prometheus. Lives on the background thread. Every client that can reach the
// address can read the page; of a request only the first line is read.
// Source: RFC 9112; a connection carries one request.
#pragma once
#include <asio/awaitable.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <functional>
#include <string>
#include <string_view>

#include "ring/net/half_open.hpp"

namespace anello::net {

class Metrics {
 public:
  // Listens at `where` ("host:port") when it returns, with `above` added to the port; calls `page` for each request on
  // the background thread. Throws Error{configuration, network} that names `setting`, where the address comes from.
  Metrics(asio::io_context& context, std::string_view setting, std::string_view where, int above,
          std::function<std::string()> page);

  unsigned short port() const { return acceptor_.local_endpoint().port(); }

 private:
  static constexpr std::size_t kMaxRequestBytes = 4096;
  static constexpr std::size_t kMaxClients = 64;  // at a time; the oldest is closed for a new one

  asio::awaitable<void> serve(asio::ip::tcp::socket socket);
  std::string answer(std::string_view request) const;

  std::function<std::string()> page_;
  asio::ip::tcp::acceptor acceptor_;
  HalfOpen clients_{kMaxClients};
};

}  // namespace anello::net
