#include "rendezvous/server/receive_join.hpp"

#include "ring/base/text.hpp"
#include "ring/net/addresses.hpp"
#include "ring/net/deadline.hpp"
#include "ring/net/message_channel.hpp"

namespace anello::rendezvous {

using asio::ip::tcp;

asio::awaitable<std::optional<Join>> receive_join(tcp::socket& socket, const net::Credentials& credentials,
                                                  std::chrono::milliseconds limit, net::Check acceptable,
                                                  int& arrived) {
  asio::error_code ignored;
  const tcp::endpoint peer = socket.remote_endpoint(ignored);
  const net::Claim claim = co_await accept_handshake(socket, credentials, acceptable);
  const net::Deadline deadline(socket, std::max(net::kHandshakeLimit, limit));
  const auto error = [&](trace::RejectReason reason, std::string_view why) {
    return net::HandshakeError(
        reason, text("connection from ", net::host_port(peer.address().to_string(), peer.port()), ": ", why));
  };
  try {
    Request request = decode_request(co_await net::read_message(socket, kMaxRequestBytes));
    if (std::holds_alternative<Arrive>(request)) {
      arrived = claim.from;
      request = decode_request(co_await net::read_message(socket, kMaxRequestBytes));
    }
    if (std::holds_alternative<Leave>(request)) co_return std::nullopt;
    Join join = std::get<Join>(request);
    if (!socket.is_open()) throw error(trace::RejectReason::crowded_out, "closed to make room for newer connections");
    if (join.rank != claim.from)
      throw error(trace::RejectReason::place, "its request to join names another rank than its handshake");
    // A successor may have gone on to the next world since the handshake.
    if (const auto rejected = acceptable(claim)) throw error(rejected->kind, rejected->why);
    if (join.elastic && claim.generation == 0) join.rank = -1;  // it comes from no world, whatever its environment says
    co_return join;
  } catch (const std::bad_variant_access&) {
    throw error(trace::RejectReason::noise, "its first message is not a request to join");
  } catch (const net::HandshakeError&) {
    throw;
  } catch (const Error& broken) {
    if (deadline.passed()) throw error(trace::RejectReason::silent, "it did not join in time");
    if (!socket.is_open()) throw error(trace::RejectReason::crowded_out, "closed to make room for newer connections");
    throw error(broken.code() == ErrorCode::protocol ? trace::RejectReason::noise : trace::RejectReason::gone,
                broken.what());
  }
}

}  // namespace anello::rendezvous
