#include "ring/net/accept.hpp"

#include <poll.h>

#include <asio/post.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>
#include <cerrno>
#include <utility>

#include "ring/base/descriptor.hpp"
#include "ring/base/log.hpp"
#include "ring/base/text.hpp"
#include "ring/net/sockets.hpp"

namespace anello::net {

using asio::awaitable;
using asio::redirect_error;
using asio::use_awaitable;

awaitable<void> pause(std::chrono::steady_clock::duration time) {
  asio::steady_timer timer(co_await asio::this_coro::executor, time);
  asio::error_code ignored;
  co_await timer.async_wait(redirect_error(use_awaitable, ignored));
}

namespace {

constexpr int kBurst = 64;  // after this many connections in a row, their handshakes get time
constexpr std::chrono::milliseconds kBetweenBursts{2}, kBetweenTries{20};
constexpr std::chrono::minutes kBetweenWarnings{1};

bool gave_up_meanwhile(asio::error_code error) {
  return error == asio::error::would_block || error == asio::error::connection_aborted || error.value() == EPROTO ||
         error == asio::error::interrupted;
}

// Call this before accept(), because without a free descriptor accept() fails even if no connection is pending.
bool has_pending(asio::ip::tcp::acceptor& acceptor) {
  pollfd polled{acceptor.native_handle(), POLLIN, 0};
  return poll(&polled, 1, 0) > 0;
}

}  // namespace

// Any program can connect, but must not be able to fill the log by this. So at most one line a minute is logged, with
// the number of failures since the previous line.
class FailureLog {
 public:
  explicit FailureLog(std::string name) : name_(std::move(name)) {}

  void add(const asio::error_code& error) {
    count_++;
    const auto now = std::chrono::steady_clock::now();
    if (now < next_) return;
    log(Severity::warning,
        text(name_, " cannot accept connections: ", error.message(), remedy_for_lack_of_files(error.value()),
             "; trying again", count_ > 1 ? text(" (", count_, " times since the last warning)") : ""));
    next_ = now + kBetweenWarnings;
    count_ = 0;
  }

 private:
  const std::string name_;
  std::chrono::steady_clock::time_point next_{};
  std::uint64_t count_ = 0;
};

// In a flood of connections, waking up costs more than a handshake. So connections are accepted in batches: a batch
// needs only one wake-up, and most of its first messages have arrived by then.
awaitable<void> accept_each(asio::ip::tcp::acceptor& acceptor, AcceptOptions options) {
  FailureLog failures(options.name);
  int burst = 0;
  std::uint64_t turned_away = 0;
  const auto flooded = [&] {
    return options.rejected_connections &&
           options.rejected_connections->total() != std::exchange(turned_away, options.rejected_connections->total());
  };
  asio::error_code error;
  acceptor.non_blocking(true, error);
  while (acceptor.is_open()) {
    if (!has_pending(acceptor)) {
      burst = 0;
      if (flooded()) co_await pause(kGathering);
      co_await acceptor.async_wait(asio::socket_base::wait_read, redirect_error(use_awaitable, error));
      if (error) co_return;
    }
    error.clear();
    asio::ip::tcp::socket socket = accept_socket(acceptor, error);
    if (!error) {
      options.take(std::move(socket));
      if (++burst % kBurst == 0)
        co_await pause(kBetweenBursts);
      else
        co_await asio::post(use_awaitable);  // lets handshakes continue in the order of arrival
    } else if (!gave_up_meanwhile(error)) {
      failures.add(error);
      options.make_room();
      co_await pause(kBetweenTries);
    }
  }
}

}  // namespace anello::net
