// Messages on a TCP socket. A message is its length (u32, little-endian), then that number of bytes. The control plane
// and the rendezvous share this framing and the outbox that sends without blocking. Everything here runs on the thread
// of the socket's executor.
#pragma once
#include <anello/error.hpp>
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

// The first byte of a message of the control plane. Values are part of the protocol.
enum class MessageKind : std::uint8_t { frame = 1, beat };

// Returns the bytes of one message as they are sent.
std::string framed(std::string_view body);
std::string message(MessageKind kind, std::string_view body);  // framed, with its kind before the body

// Thrown if the other side's kernel has ended a connection: its process has closed it, or ended.
struct ConnectionClosed : Error {
  using Error::Error;
};

// Waits for the next message and returns its body. Allocates memory as the bytes arrive, not for the whole length that
// the message claims. Throws Error{protocol} if that length is more than `max_bytes`. If the other side ended the
// connection, throws ConnectionClosed{network} with "`connection` was closed" or the system's message. If the
// connection ended for another reason, such as a host that does not answer, throws Error{network}.
asio::awaitable<std::string> read_message(asio::ip::tcp::socket& socket, std::size_t max_bytes,
                                          std::string_view connection = "the connection");

// A socket and the queue of messages for that socket. A receiver that is slow or stopped delays only its own messages.
// Errors in sending are not reported here; the reader of the socket finds out why the connection ended.
class MessageChannel : public std::enable_shared_from_this<MessageChannel> {
 public:
  using Socket = asio::ip::tcp::socket;
  using Message = std::shared_ptr<const std::string>;  // framed; several channels may send the same message

  explicit MessageChannel(Socket socket);

  Socket& socket() { return socket_; }
  // Does not block. Sends at once as many bytes as the kernel accepts, and queues the rest. Bytes that the kernel has
  // accepted arrive even if the process ends now, unless this process has left input unread.
  void send(Message message);
  // Ends the channel: closes the sending side after the last queued message, and the whole connection after `limit`. In
  // that time the other side can read the last message. (If a socket with unread input is closed, the kernel discards
  // sent data.) Messages that are sent after this call are dropped.
  void finish(std::chrono::milliseconds limit);
  void close();

  bool queued() const { return !outbox_.empty(); }  // true if a message has not been sent completely

 private:
  asio::awaitable<void> drain(std::size_t sent);  // `sent`: bytes of the first message that are already sent

  Socket socket_;
  std::deque<Message> outbox_;
  bool sending_ = false, finished_ = false;
  std::optional<Deadline> end_;
};

}  // namespace anello::net
