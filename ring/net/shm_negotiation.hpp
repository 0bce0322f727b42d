// How two ranks of one host come to share memory, over a data connection that has been through its handshake. The
// connecting side makes a segment and a Unix socket with a random name. A token that goes over the connection must come
// back through the socket and be found in the memory: so both are sure of whom they share it with. Whatever goes wrong,
// both know that it did, and the connection is as good as before. Coroutines; on the background thread.
//
//   offering                                   taking
//   size of a pipe (0: cannot), name, token ->
//                                   Unix:   <- token, with the bell
//                                           <- yes or no
//   segment and bell                ->  :Unix
//   yes or no                               ->
//                                           <- yes or no: the token is in the memory
#pragma once
#include <asio/awaitable.hpp>
#include <asio/ip/tcp.hpp>
#include <memory>
#include <string>

#include "ring/link/link.hpp"

namespace anello {

// A text that is equal for two processes if, as far as can be told, they can share memory: same boot of the same
// kernel, same network namespace (which holds the names of Unix sockets), same user.
std::string memory_domain();

// Each takes the other's `bell`, which wakes it. Null if there is no sharing. Throws Error{network, protocol,
// timed_out} if the connection itself fails.
asio::awaitable<std::unique_ptr<Link>> offer_memory(asio::ip::tcp::socket& connection, std::size_t pipe_bytes,
                                                    int bell);
asio::awaitable<std::unique_ptr<Link>> take_memory(asio::ip::tcp::socket& connection, int bell);

}  // namespace anello
