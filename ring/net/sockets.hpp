// Opens and accepts TCP sockets, and knows how many descriptors are left. Every TCP socket of this library comes from
// here. Asio's own open() and accept() would let this process's children inherit it (ring/base/unshared_socket.hpp).
// Any thread.
#pragma once
#include <asio/awaitable.hpp>
#include <asio/ip/tcp.hpp>
#include <cstddef>

#include "ring/base/descriptor.hpp"

namespace anello::net {

// Opens a socket or an acceptor that is not open.
template <class Socket>
void open_socket(Socket& socket, const asio::ip::tcp& protocol, asio::error_code& error);

// Connects an open socket. If there is no listener at a port that the kernel also gives to connecting sockets, it may
// give this one that very port: then TCP connects the socket to itself (simultaneous open, RFC 9293). That counts as
// refused and closes the socket, so that the port is free again. `error` outlives the connecting.
asio::awaitable<void> connect(asio::ip::tcp::socket& socket, asio::ip::tcp::endpoint where, asio::error_code& error);

// Opens the acceptor and listens; port 0 is any free one, and :: is all addresses, of IPv4 too. Throws Error{network}
// that names the address and the port.
void listen(asio::ip::tcp::acceptor& acceptor, const asio::ip::tcp::endpoint& where);

// The next pending connection; `error` is would_block if there is none and the acceptor is non-blocking.
asio::ip::tcp::socket accept_socket(asio::ip::tcp::acceptor& acceptor, asio::error_code& error);

// "::", which takes connections of both families, or "0.0.0.0" where the kernel has no IPv6.
const char* any_address();

// Descriptors that this process may still open.
std::size_t free_descriptors();

// Raises this process's limit of open files as far as it may, for as long as one of these exists: for a server, to
// which each rank connects. Any thread.
class RaisedFilesLimit {
 public:
  RaisedFilesLimit();
  ~RaisedFilesLimit();
  RaisedFilesLimit(const RaisedFilesLimit&) = delete;
  RaisedFilesLimit& operator=(const RaisedFilesLimit&) = delete;
};

// One descriptor kept open, so that a process without any other free one can still accept a connection and authenticate
// it. On one thread.
class SpareDescriptor {
 public:
  SpareDescriptor() { take(); }

  // False if no descriptor is free.
  bool take();
  void give_up() { descriptor_.close(); }

 private:
  Descriptor descriptor_;
};

}  // namespace anello::net
