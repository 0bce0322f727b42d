// One connection of the server: its socket and what still has to go out on it. Owner: the server's thread. A reader
// that is slow or stopped holds up nobody but itself.
#pragma once
#include <asio/awaitable.hpp>
#include <asio/ip/tcp.hpp>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "ring/net/deadline.hpp"

namespace anello::rendezvous {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Frame = std::shared_ptr<const std::string>;  // shared by all who are sent the same

  explicit Connection(asio::ip::tcp::socket socket);

  asio::ip::tcp::socket& socket() { return socket_; }
  const std::string& peer() const { return peer_; }  // "10.0.0.3:41234"
  void send(Frame frame);
  // The last frame: the sending side is closed after it, and all of the connection 5 s later, so that the other side
  // can read it in any case (a socket closed with unread input discards what it had sent).
  void send_last(Frame frame);
  void close();

 private:
  asio::awaitable<void> drain();

  asio::ip::tcp::socket socket_;
  std::string peer_;
  std::deque<Frame> outbox_;
  bool draining_ = false, last_ = false;
  std::optional<Deadline> end_;
};

}  // namespace anello::rendezvous
