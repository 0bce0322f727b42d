#include "ring/net/accept.hpp"

#include <poll.h>

#include <asio/post.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>
#include <cerrno>
#include <utility>

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

constexpr int kBurst = 64;  // connections accepted in a row; then the accepted ones get time to answer
constexpr std::chrono::milliseconds kBetweenBursts{2}, kBetweenTries{20};

bool gave_up_meanwhile(asio::error_code error) {
  return error == asio::error::would_block || error == asio::error::connection_aborted || error.value() == EPROTO ||
         error == asio::error::interrupted;
}

// Asked first, because accept() fails without a free descriptor even if no connection is pending.
bool has_pending(asio::ip::tcp::acceptor& acceptor) {
  pollfd polled{acceptor.native_handle(), POLLIN, 0};
  return poll(&polled, 1, 0) > 0;
}

}  // namespace

// Under a flood, waking up costs more than a handshake. Accepting in batches shares one wake-up, and most first
// messages have arrived by then.
awaitable<void> accept_each(asio::ip::tcp::acceptor& acceptor, AcceptOptions options) {
  bool logged = false;
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
      logged = false;
      if (++burst % kBurst == 0)
        co_await pause(kBetweenBursts);
      else
        co_await asio::post(use_awaitable);  // handshakes go on in the order of arrival
    } else if (!gave_up_meanwhile(error)) {
      if (!std::exchange(logged, true))
        log(Severity::warning,
            text(options.name, " cannot accept connections: ", error.message(),
                 error == asio::error::no_descriptors ? "; raise the limit (ulimit -n)" : "", "; trying again"));
      options.make_room();
      co_await pause(kBetweenTries);
    }
  }
}

}  // namespace anello::net
