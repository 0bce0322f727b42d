// Opens and accepts TCP sockets, and counts the free descriptors. All TCP sockets of this library come from here: with
// Asio's own open() and accept(), child processes would inherit them (ring/base/unshared_socket.hpp). Any thread.
#pragma once
#include <asio/awaitable.hpp>
#include <asio/ip/tcp.hpp>
#include <chrono>
#include <cstddef>

#include "ring/base/descriptor.hpp"

namespace anello::net {

// Opens a socket or an acceptor that is not open yet.
template <class Socket>
void open_socket(Socket& socket, const asio::ip::tcp& protocol, asio::error_code& error);

// Connects an open socket. If no process listens at the target port, the kernel may choose that very port as the
// socket's own port. TCP then connects the socket to itself (simultaneous open, RFC 9293). This function treats such a
// connection as refused and closes the socket, so that the port is free again. `error` must outlive the coroutine.
asio::awaitable<void> connect(asio::ip::tcp::socket& socket, asio::ip::tcp::endpoint where, asio::error_code& error);

// Opens the acceptor and listens. Port 0 means any free port; :: means all addresses, including IPv4. Throws
// Error{network} that names the address and the port.
void listen(asio::ip::tcp::acceptor& acceptor, const asio::ip::tcp::endpoint& where);

// Accepts the next pending connection; `error` is would_block if there is none and the acceptor is non-blocking.
asio::ip::tcp::socket accept_socket(asio::ip::tcp::acceptor& acceptor, asio::error_code& error);

// Makes the kernel ask each second, while nothing arrives, whether the other host is reachable, and end the connection
// if that host does not answer for `limit`. The other host's kernel also answers for a process that is stopped or busy.
void end_if_cut_off(int socket, std::chrono::milliseconds limit);
inline constexpr std::chrono::milliseconds kCutLimit{4000};  // the limit between a rendezvous server and its processes

// Returns "::", which accepts connections of both families, or "0.0.0.0" if the kernel has no IPv6.
const char* any_address();

// Returns the number of descriptors that this process may still open.
std::size_t free_descriptors();

// Raises this process's limit of open files to the maximum while an object of this class exists. For a server, because
// each rank connects to it. Any thread.
class RaisedFilesLimit {
 public:
  RaisedFilesLimit();
  ~RaisedFilesLimit();
  RaisedFilesLimit(const RaisedFilesLimit&) = delete;
  RaisedFilesLimit& operator=(const RaisedFilesLimit&) = delete;
};

// Keeps one descriptor open. If a process has no other free descriptor, it can close this one to accept a connection
// and authenticate it. On one thread.
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
