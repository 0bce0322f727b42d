// Measures again and again how long a world's proxies take at present for the messages of a ping. A thread plays both
// ends of the ping.
#pragma once
#include <algorithm>
#include <array>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#include <chrono>
#include <mutex>
#include <optional>
#include <thread>

#include "ring/net/accept.hpp"
#include "tests/support/proxied.hpp"

namespace anello::faults {

class ProxyDelay {
 public:
  using Time = std::chrono::milliseconds;

  explicit ProxyDelay(Proxied& proxied) : port_(proxied.further(listener_.local_endpoint())) {}
  ~ProxyDelay() {
    context_.stop();  // even if the current ping never gets through
    thread_.join();
  }

  // The longest time so far, including that of the current measurement.
  Time longest() {
    const std::lock_guard lock(mutex_);
    return std::max(longest_, under_way());
  }

 private:
  using Clock = std::chrono::steady_clock;
  using Socket = asio::ip::tcp::socket;
  static constexpr Time kBetween{20};

  asio::awaitable<void> measure() {
    for (;;) {
      note(Clock::now());
      co_await ping();
      note(std::nullopt);
      co_await net::pause(kBetween);
    }
  }
  void note(std::optional<Clock::time_point> began) {
    const std::lock_guard lock(mutex_);
    longest_ = std::max(longest_, under_way());
    began_ = began;
  }
  Time under_way() const { return began_ ? std::chrono::duration_cast<Time>(Clock::now() - *began_) : Time(0); }

  // A connection, then hello, challenge, proof and acceptance. Fewer steps if the proxy cannot connect to the target,
  // or if no descriptor is left.
  asio::awaitable<void> ping() {
    Socket near(context_), far(context_);
    asio::error_code failed;
    auto or_failed = asio::redirect_error(asio::use_awaitable, failed);
    const asio::ip::tcp::endpoint proxy(asio::ip::address_v4::loopback(), port_);
    co_await near.async_connect(proxy, or_failed);
    if (failed) co_return;
    // Before the far end is connected, no byte can come: an event is the end of the connection.
    near.async_wait(Socket::wait_read, [this](asio::error_code aborted) {
      asio::error_code ignored;
      if (!aborted) listener_.cancel(ignored);
    });
    co_await listener_.async_accept(far, or_failed);
    const std::array<Socket*, 4> senders{&near, &far, &near, &far};
    for (std::size_t k = 0; k < senders.size() && !failed; k++) {
      char byte = 0;
      co_await asio::async_write(*senders[k], asio::buffer(&byte, 1), or_failed);
      if (!failed) co_await asio::async_read(senders[k] == &near ? far : near, asio::buffer(&byte, 1), or_failed);
    }
  }

  asio::io_context context_;
  asio::ip::tcp::acceptor listener_{context_, {asio::ip::address_v4::loopback(), 0}};
  const std::uint16_t port_;
  std::mutex mutex_;
  Time longest_{0};
  std::optional<Clock::time_point> began_;
  std::thread thread_{[this] {  // declared last: it uses the other members
    asio::co_spawn(context_, measure(), asio::detached);
    context_.run();
  }};
};

}  // namespace anello::faults
