// The two links of one loopback connection, for measurements of single links.
#pragma once
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <memory>
#include <utility>

#include "ring/net/tcp_link.hpp"

namespace anello::bench {

struct LinkPair {
  LinkPair() {
    using asio::ip::tcp;
    tcp::acceptor acceptor(context, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
    tcp::socket dialled(context);
    dialled.connect(acceptor.local_endpoint());
    tcp::socket accepted = acceptor.accept();
    for (tcp::socket* socket : {&dialled, &accepted}) socket->set_option(tcp::no_delay(true));
    a = std::make_unique<net::TcpLink>(Descriptor(dialled.release()));
    b = std::make_unique<net::TcpLink>(Descriptor(accepted.release()));
  }
  asio::io_context context;
  std::unique_ptr<link::Link> a, b;
};

// send_part() and receive_part() move as much as possible of `left`. They return true when `left` is empty.
inline bool send_part(link::Link& link, ConstBytes& left) {
  const std::size_t sent = link.send_from({&left, 1});
  left = left.subspan(sent);
  return left.empty();
}
inline bool receive_part(link::Link& link, Bytes& left) {
  const std::size_t got = link.recv_into({&left, 1});
  left = left.subspan(got);
  return left.empty();
}

// Moves the bytes in both directions at the same time. This thread drives both ends.
inline void move_both_ways(LinkPair& pair, ConstBytes from, Bytes to) {
  ConstBytes a_out = from, b_out = from;
  Bytes a_in = to, b_in = to;
  for (bool done = false; !done;) {
    done = send_part(*pair.a, a_out);
    done &= receive_part(*pair.b, b_in);
    done &= send_part(*pair.b, b_out);
    done &= receive_part(*pair.a, a_in);
  }
}

}  // namespace anello::bench
