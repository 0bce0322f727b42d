// The negotiation by which two ranks of one host agree to share memory, over a data connection after its handshake. The
// connecting side makes a memory file and a Unix socket with a random name. It sends a token over the connection. The
// token must come back through the socket and be found in the memory; this proves to each side that it shares memory
// with the other side. If any step fails, the last messages inform both sides, and the connection can be used as
// before. There is no time limit: both sides answer on their background threads, and the control plane notices if one
// of these threads stops. Coroutines; on the background thread.
//
//   offering                                   taking
//   size of a pipe (0: cannot), name, token ->
//                                   Unix:   <- token, with the bell
//                                           <- yes or no
//   memory file and bell            ->  :Unix
//   yes or no                               ->
//                                           <- yes or no: the token is in the memory
#pragma once
#include <asio/awaitable.hpp>
#include <asio/ip/tcp.hpp>
#include <memory>
#include <string>

#include "ring/link/link.hpp"

namespace anello::net {

// Returns a text that is equal for two processes if they can probably share memory: same boot of the same kernel, same
// network namespace (it contains the names of Unix sockets), same user. Empty if one of these cannot be found out.
std::string memory_domain();

struct Negotiated {
  std::unique_ptr<link::Link> link;  // null if the ranks do not share memory
  std::string why_not;
  // True if `why_not` is a reason on this side. The other side receives only a refusal, without this reason.
  bool lies_here = false;
};

// `bell`: each side sends its bell to the other side, which rings it to wake this side. Throws Error{network} if the
// connection itself fails.
asio::awaitable<Negotiated> offer_memory(asio::ip::tcp::socket& connection, std::size_t pipe_bytes, int bell);
asio::awaitable<Negotiated> take_memory(asio::ip::tcp::socket& connection, int bell);

}  // namespace anello::net
