// A link over a connected TCP socket. The socket has left the background thread's event loop, and has none of its own:
// only the thread that moves the group's data touches it.
#pragma once
#include "ring/base/descriptor.hpp"
#include "ring/link/link.hpp"

namespace anello::net {

class TcpLink final : public link::Link {
 public:
  explicit TcpLink(Descriptor socket);

  std::size_t send_from(std::span<const ConstBytes> pieces) override;
  std::size_t recv_into(std::span<const Bytes> pieces) override;
  bool want(bool sending, link::Waiter& waiter) override {
    waiter.want(socket_.get(), sending ? POLLOUT : POLLIN);
    return true;
  }
  int descriptor() const { return socket_.get(); }

 private:
  Descriptor socket_;
};

}  // namespace anello::net
