// A link over a connected TCP socket. The socket is no longer part of any event loop: only the thread that moves the
// group's data uses it.
#pragma once
#include <anello/error.hpp>
#include <optional>

#include "ring/base/descriptor.hpp"
#include "ring/link/link.hpp"

namespace anello::net {

inline Error connection_closed() {
  return Error(ErrorCode::network, "the connection was closed");
}

class TcpLink final : public link::Link {
 public:
  explicit TcpLink(Descriptor socket);

  std::size_t send_from(std::span<const ConstBytes> pieces) override;
  std::size_t recv_into(std::span<const Bytes> pieces) override;
  // Like recv_into(), but returns an empty result if the other side has closed the connection and all data was
  // received.
  std::optional<std::size_t> recv_until_end(std::span<const Bytes> pieces);
  bool has_arrived() override;
  bool want(link::Wanted wanted, link::Waiter& waiter) override {
    waiter.want(socket_.get(), wanted == link::Wanted::room ? POLLOUT : POLLIN);
    return true;
  }
  int descriptor() const { return socket_.get(); }

 private:
  Descriptor socket_;
};

}  // namespace anello::net
