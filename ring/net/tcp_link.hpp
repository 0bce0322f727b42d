// A link over a connected TCP socket. The socket has left the background thread's event loop: only the thread that
// moves the group's data touches it.
#pragma once
#include <asio/ip/tcp.hpp>

#include "ring/link/link.hpp"

namespace anello::net {

class TcpLink final : public link::Link {
 public:
  // The socket's context is never run; the socket's type only needs one.
  explicit TcpLink(asio::ip::tcp::socket socket);

  std::size_t send_from(std::span<const ConstBytes> pieces) override;
  std::size_t recv_into(std::span<const Bytes> pieces) override;
  int descriptor(bool /*sending*/) const override { return descriptor_; }

 private:
  asio::ip::tcp::socket socket_;
  int descriptor_;
};

}  // namespace anello::net
