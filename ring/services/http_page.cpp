#include "ring/services/http_page.hpp"

#include <anello/error.hpp>
#include <asio/read_until.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#include <utility>

#include "ring/base/text.hpp"
#include "ring/net/accept.hpp"
#include "ring/net/addresses.hpp"
#include "ring/net/deadline.hpp"
#include "ring/net/sockets.hpp"
#include "ring/net/spawn.hpp"

namespace anello::services {

using asio::redirect_error;
using asio::use_awaitable;
using asio::ip::tcp;

namespace {

constexpr std::chrono::milliseconds kPageLimit{2000};

std::string response(std::string_view status, std::string_view type, std::string_view body) {
  return text("HTTP/1.1 ", status, "\r\nContent-Type: ", type, "\r\nContent-Length: ", body.size(),
              "\r\nConnection: close\r\n\r\n", body);
}

}  // namespace

Metrics::Metrics(asio::io_context& context, std::string_view setting, std::string_view where, int above,
                 std::function<std::string()> page)
    : page_(std::move(page)), acceptor_(context) {
  const net::HostPort wanted = net::parse_host_port(setting, where);
  const int port = wanted.port + above;
  if (port > 65535)
    throw Error(ErrorCode::configuration, text(setting, "='", where, "': no port is left for local rank ", above));
  const auto fail = [&](const asio::error_code& error) {
    throw Error(ErrorCode::network, text(setting, "='", where, "': cannot listen at ",
                                         net::host_port(wanted.host, unsigned(port)), ": ", error.message()));
  };
  asio::error_code error;
  tcp::resolver resolver(context);
  const auto found = resolver.resolve(wanted.host, std::to_string(port), tcp::resolver::numeric_service, error);
  if (error) fail(error);
  const tcp::endpoint endpoint = *found.begin();
  net::open_socket(acceptor_, endpoint.protocol(), error);
  if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(tcp::acceptor::max_listen_connections, error);
  if (error) fail(error);
  const auto make_room = [this] { clients_.close_oldest(net::kTimeEnough); };
  const auto take = [this, &context](tcp::socket socket) { net::spawn(context, serve(std::move(socket))); };
  net::spawn(context, net::accept_each(acceptor_, {std::string(setting), make_room, take}));
}

asio::awaitable<void> Metrics::serve(tcp::socket socket) {
  const net::HalfOpen::Place place(clients_, socket);
  const net::Deadline deadline(socket, kPageLimit);
  std::string request;
  asio::error_code error;
  co_await asio::async_read_until(socket, asio::dynamic_buffer(request, kMaxRequestBytes), "\r\n\r\n",
                                  redirect_error(use_awaitable, error));
  if (!error) co_await asio::async_write(socket, asio::buffer(answer(request)), redirect_error(use_awaitable, error));
  asio::error_code ignored;
  socket.shutdown(tcp::socket::shutdown_send, ignored);
}

std::string Metrics::answer(std::string_view request) const {
  const std::string_view line = request.substr(0, request.find("\r\n"));
  if (!line.starts_with("GET ")) return response("405 Method Not Allowed", "text/plain", "GET /metrics\n");
  const std::string_view target = line.substr(4, line.find(' ', 4) - 4);
  if (target != "/metrics" && target != "/") return response("404 Not Found", "text/plain", "GET /metrics\n");
  return response("200 OK", "text/plain; version=0.0.4; charset=utf-8", page_());
}

}  // namespace anello::services
