// Carries the bytes of a pipe to another host. A source reads the pipe on one host, and a sink writes the bytes on the
// other host. The source is at most kWindow bytes ahead of the bytes that the sink has written. So a stream with a slow
// reader does not fill memory, and does not delay other streams and messages of its connection. Owned by a poll loop.
#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "rendezvous/launch/base/descriptor.hpp"
#include "rendezvous/launch/base/poll_set.hpp"

namespace anello::launch {

inline constexpr std::size_t kWindow = 64 << 10;

class RelaySource {
 public:
  // `send`: called with the bytes that were read, and with no bytes at the end of the pipe. Without `from` the source
  // is closed from the beginning.
  RelaySource(Descriptor from, std::function<void(std::string_view)> send);
  void watch(PollSet& polls);
  void taken(std::size_t bytes);  // the sink has written these bytes
  bool open() const { return bool(from_); }
  bool has_room() const { return room_ > 0; }  // if false, the source reads nothing until the sink has written bytes
  void end();                                  // acts as if the pipe had ended
  void read_some();  // reads the available bytes, at most as many as there is room for; does not block

 private:
  Descriptor from_;
  std::function<void(std::string_view)> send_;
  std::size_t room_ = kWindow;
};

class RelaySink {
 public:
  // `taken`: called with the number of bytes that were written. Makes the pipe non-blocking.
  RelaySink(Descriptor to, std::function<void(std::size_t)> taken);
  void arrived(std::string_view bytes);  // an empty text: the stream has ended
  void watch(PollSet& polls);
  bool open() const { return bool(to_); }

 private:
  void write_some();

  Descriptor to_;
  std::function<void(std::size_t)> taken_;
  std::string pending_;
  bool ended_ = false;
};

}  // namespace anello::launch
