// Serves one page of text over HTTP, for Prometheus. Runs on the background thread. Every client that can reach the
// address can read the page. Reads only the first line of a request, and serves one request on each connection. Source:
// RFC 9112.
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
  // The constructor listens at `where` ("host:port"), with `above` added to the port, before it returns. Calls `page`
  // for each request on the background thread. Throws Error{configuration, network} that names `setting`, the setting
  // that gave the address.
  Metrics(asio::io_context& context, std::string_view setting, std::string_view where, int above,
          std::function<std::string()> page);

  unsigned short port() const { return acceptor_.local_endpoint().port(); }

 private:
  static constexpr std::size_t kMaxRequestBytes = 4096;
  // Maximum number of clients at the same time; a further client closes the oldest connection.
  static constexpr std::size_t kMaxClients = 64;

  asio::awaitable<void> serve(asio::ip::tcp::socket socket);
  std::string answer(std::string_view request) const;

  std::function<std::string()> page_;
  asio::ip::tcp::acceptor acceptor_;
  net::HalfOpen clients_{kMaxClients};
};

}  // namespace anello::services
