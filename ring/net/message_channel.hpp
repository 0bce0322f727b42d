// Messages on a TCP socket: each is its length (u32, little-endian), then as many bytes. The control plane and the
// rendezvous share this framing and the outbox that sends without blocking. Everything here runs on the thread of the
// socket's executor.
#pragma once
#include <asio/awaitable.hpp>
#include <asio/ip/tcp.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "ring/net/deadline.hpp"

namespace anello::net {

// The first byte of a control plane's message. Values are part of the protocol.
enum class MessageKind : std::uint8_t { frame = 1, beat };

// The bytes on the wire of one message.
std::string framed(std::string_view body);
std::string message(MessageKind kind, std::string_view body);  // framed, with its kind before the body

// Waits for the next message and returns its body. Memory is allocated while the bytes arrive, not when a length claims
// them. Throws Error{protocol} if the length is more than `max_bytes`, and Error{network} if the connection ends:
// "`connection` was closed", or the system's message.
asio::awaitable<std::string> read_message(asio::ip::tcp::socket& socket, std::size_t max_bytes,
                                          std::string_view connection = "the connection");

// A socket and the messages that still have to be sent on it. A receiver that is slow or stopped delays only its own
// messages. Errors in sending are not reported here: the reader of the socket finds out why the connection ended.
class MessageChannel : public std::enable_shared_from_this<MessageChannel> {
 public:
  using Socket = asio::ip::tcp::socket;
  using Message = std::shared_ptr<const std::string>;  // framed; several channels may send the same one

  explicit MessageChannel(Socket socket);

  Socket& socket() { return socket_; }
  // Does not block. What the kernel has room for is sent at once, so that it arrives also if this process ends now,
  // unless it has left input unread; the rest is queued.
  void send(Message message);
  // Ends the channel: the sending side is closed after the last queued message, and the whole connection after `limit`.
  // Until then the other side can read that message. (The kernel discards what was sent if a socket is closed while it
  // has unread input.) Later messages are dropped.
  void finish(std::chrono::milliseconds limit);
  void close();

  bool queued() const { return !outbox_.empty(); }  // a message has not been sent whole

 private:
  asio::awaitable<void> drain(std::size_t sent);  // of the first message

  Socket socket_;
  std::deque<Message> outbox_;
  bool sending_ = false, finished_ = false;
  std::optional<Deadline> end_;
};

}  // namespace anello::net
