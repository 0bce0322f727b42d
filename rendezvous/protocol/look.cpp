#include "rendezvous/protocol/look.hpp"

#include <asio/buffer.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/redirect_error.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>

#include "rendezvous/protocol/protocol.hpp"
#include "ring/net/deadline.hpp"
#include "ring/net/message_channel.hpp"
#include "ring/net/sockets.hpp"

namespace anello::rendezvous {

using asio::ip::tcp;

asio::awaitable<Look> look(std::string address, std::uint16_t port, const net::Credentials& credentials,
                           net::Claim claim, std::chrono::milliseconds limit) {
  tcp::socket socket(co_await asio::this_coro::executor);
  const net::Deadline deadline(socket, limit);
  asio::error_code failure;
  const tcp::endpoint where(asio::ip::make_address(address, failure), port);
  if (!failure) net::open_socket(socket, where.protocol(), failure);
  if (!failure) co_await net::connect(socket, where, failure);
  if (failure == asio::error::connection_refused) co_return Look{Look::Outcome::no_entry, {}};
  if (failure) co_return Look{};
  try {
    co_await connect_handshake(socket, credentials, claim);
    const std::string bye = net::framed(encode(Request(Leave{})));
    co_await asio::async_write(socket, asio::buffer(bye), asio::redirect_error(asio::use_awaitable, failure));
    co_return Look{Look::Outcome::answers, {}};
  } catch (const net::HandshakeError& error) {
    const bool is_silent = deadline.passed() || error.reason() == trace::RejectReason::silent ||
                           error.reason() == trace::RejectReason::gone ||
                           error.reason() == trace::RejectReason::crowded_out;
    co_return Look{is_silent ? Look::Outcome::silent : Look::Outcome::rejects, error.what()};
  }
}

}  // namespace anello::rendezvous
