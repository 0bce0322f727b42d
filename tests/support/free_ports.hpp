// Ports of loopback for a test that needs their numbers before its processes listen.
#pragma once
#include <unistd.h>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <cstdint>
#include <stdexcept>

namespace anello {

inline bool is_free(std::uint16_t port) {
  asio::io_context context;
  asio::ip::tcp::acceptor acceptor(context, asio::ip::tcp::v4());
  asio::error_code taken;
  acceptor.set_option(asio::socket_base::reuse_address(true));
  acceptor.bind({asio::ip::address_v4::loopback(), port}, taken);
  if (!taken) acceptor.listen(1, taken);
  return !taken;
}

// Returns the first of `count` consecutive ports on which no process listens. These ports are below the ports that jobs
// choose (rendezvous/join/job_ports.hpp), and below the ports of outgoing connections. So other tests that run at the
// same time do not take them. Throws std::runtime_error if there are no such ports.
inline std::uint16_t consecutive_free_ports(int count) {
  constexpr int kFirst = 10000, kEnd = 20000;
  const int blocks = (kEnd - kFirst) / count;
  for (int tried = 0; tried < blocks; tried++) {
    const int first = kFirst + (int(getpid()) + tried) % blocks * count;
    int free = 0;
    while (free < count && is_free(std::uint16_t(first + free))) free++;
    if (free == count) return std::uint16_t(first);
  }
  throw std::runtime_error("no consecutive ports are free");
}

}  // namespace anello
