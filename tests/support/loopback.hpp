// Connected sockets over loopback.
#pragma once
#include <sys/socket.h>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>

namespace anello {

struct Loopback {
  asio::io_context context;
  asio::ip::tcp::acceptor listener{context, {asio::ip::address_v4::loopback(), 0}};
  asio::ip::tcp::socket a{context}, b{context};

  // With small buffers, moves are partial; with 0, the system chooses the buffers' size.
  explicit Loopback(int buffer_bytes = 0) {
    if (buffer_bytes > 0) listener.set_option(asio::socket_base::receive_buffer_size(buffer_bytes));
    a.open(asio::ip::tcp::v4());
    if (buffer_bytes > 0) {
      a.set_option(asio::socket_base::send_buffer_size(buffer_bytes));
      a.set_option(asio::socket_base::receive_buffer_size(buffer_bytes));
    }
    a.connect(listener.local_endpoint());
    listener.accept(b);
  }
};

}  // namespace anello
