// Messages between the launcher and an agent on one TCP connection, in a poll loop. Each message is its length (u32,
// little-endian), then this number of bytes, as in ring/net/message_channel.hpp. Nothing here blocks. Owned by a poll
// loop.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "rendezvous/launch/base/descriptor.hpp"
#include "rendezvous/launch/base/poll_set.hpp"

namespace anello::launch {

class MessageStream {
 public:
  explicit MessageStream(Descriptor socket);

  void send(std::string_view message);  // sends the bytes that fit into the socket now, and queues the rest
  void watch(PollSet& polls, std::function<void(std::string_view)> received);
  void finish();  // sends no more messages; the other end sees the end after the last one

  bool closed() const { return closed_; }              // the other end closed the connection, or it broke
  const std::string& error() const { return error_; }  // why the connection broke; empty: the other end closed it
  bool all_sent() const { return outbox_.empty(); }

 private:
  void send_some();
  void receive_some(const std::function<void(std::string_view)>& received);
  void take_messages(const std::function<void(std::string_view)>& received);

  Descriptor socket_;
  std::string inbox_, outbox_, error_;
  bool closed_ = false, finished_ = false;
};

}  // namespace anello::launch
