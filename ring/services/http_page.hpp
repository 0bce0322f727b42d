// Serves one page of text over HTTP, for Prometheus. Lives on the background thread. Every client that can reach the
// address can read the page; only the first line of a request is read. A connection carries one request. Source: RFC
// 9112.
#pragma once
#include <asio/awaitable.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <functional>
#include <string>
#include <string_view>

#include "ring/net/half_open.hpp"

namespace anello::services {

class Metrics {
 public:
  // Listens at `where` ("host:port") when it returns, with `above` added to the port. Calls `page` for each request on
  // the background thread. Throws Error{configuration, network} that names `setting`, from which the address comes.
  Metrics(asio::io_context& context, std::string_view setting, std::string_view where, int above,
          std::function<std::string()> page);

  unsigned short port() const { return acceptor_.local_endpoint().port(); }

 private:
  static constexpr std::size_t kMaxRequestBytes = 4096;
  static constexpr std::size_t kMaxClients = 64;  // at the same time; the oldest is closed for a new one

  asio::awaitable<void> serve(asio::ip::tcp::socket socket);
  std::string answer(std::string_view request) const;

  std::function<std::string()> page_;
  asio::ip::tcp::acceptor acceptor_;
  net::HalfOpen clients_{kMaxClients};
};

}  // namespace anello::services
