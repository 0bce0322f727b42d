// Stands in for a listener and passes on what goes to and fro, damaged as one likes. Its event loop's thread; fault()
// is for any.
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
    std::chrono::milliseconds delay{0};  // of everything
    std::uint64_t bytes_a_second = 0;    // each way of each connection; 0: as many as come
    bool cut_off = false;  // nothing comes through, not even an end; what was sent comes when this is over
    // Once, where the first connection has come so far in one direction:
    std::optional<std::uint64_t> corrupt_at;     // one bit is another
    std::optional<std::uint64_t> drop_at;        // one byte is not passed on
    std::optional<std::uint64_t> truncate_at;    // both sides see the connection end
    std::optional<std::uint64_t> half_close_at;  // who receives sees the end; the other direction goes on
    bool answers_only = false;                   // these, only in what comes from the target
  };

  using Endpoint = asio::ip::tcp::endpoint;
  Proxy(asio::io_context& context, const Endpoint& target);

  std::uint16_t port() const { return port_; }
  void fault(const Fault& fault);

 private:
  using Socket = asio::ip::tcp::socket;
  struct Pair;
  // What becomes of so many bytes at this position.
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
