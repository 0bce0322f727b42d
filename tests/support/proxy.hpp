// A proxy in front of a listener: passes bytes on in both directions, with the faults that are set. It runs on its
// event loop's thread; any thread may call fault().
#pragma once
#include <asio/awaitable.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace anello {

class Proxy {
 public:
  struct Fault {
    std::chrono::milliseconds delay{0};  // delay of all bytes
    std::uint64_t bytes_a_second = 0;    // limit for each way of each connection; 0: unlimited
    bool cut_off = false;                // no byte and no end passes; bytes sent meanwhile pass afterwards
    // Each happens once, when the first connection has passed this number of bytes in one direction:
    std::optional<std::uint64_t> corrupt_at;     // one bit is flipped
    std::optional<std::uint64_t> drop_at;        // one byte is lost
    std::optional<std::uint64_t> truncate_at;    // both sides see the end of the connection
    std::optional<std::uint64_t> half_close_at;  // the receiver sees the end; the other direction goes on
    bool answers_only = false;                   // the faults above happen only to bytes from the target
  };

  using Endpoint = asio::ip::tcp::endpoint;
  Proxy(asio::io_context& context, const Endpoint& target);

  std::uint16_t port() const { return port_; }
  void fault(const Fault& fault);

 private:
  using Socket = asio::ip::tcp::socket;
  struct Pair;
  // How the bytes at a position are passed on.
  struct Fate {
    std::chrono::steady_clock::duration wait{0};
    bool truncate = false, half_close = false;
  };
  asio::awaitable<void> connect(Socket accepted);
  asio::awaitable<void> pass_on(std::shared_ptr<Pair> pair, Socket& from, Socket& to);
  Fate meddle(std::uint64_t position, std::vector<char>& bytes, bool answer);
  bool cut_off() const;

  asio::io_context& context_;
  const Endpoint target_;
  asio::ip::tcp::acceptor listener_;
  const std::uint16_t port_;
  mutable std::mutex mutex_;
  Fault fault_;
};

}  // namespace anello
