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

namespace anello {

using asio::awaitable;
using asio::redirect_error;
using asio::use_awaitable;

awaitable<void> pause(std::chrono::steady_clock::duration time) {
  asio::steady_timer timer(co_await asio::this_coro::executor, time);
  asio::error_code ignored;
  co_await timer.async_wait(redirect_error(use_awaitable, ignored));
}

namespace {

// So many in a row; then those who are in have time to answer.
constexpr int kBurst = 64;
constexpr std::chrono::milliseconds kBetweenBursts{2}, kBetweenTries{20};

bool gave_up_meanwhile(asio::error_code error) {
  return error == asio::error::would_block || error == asio::error::connection_aborted || error.value() == EPROTO;
}

// accept() wants a descriptor before it looks whether anybody is there, and says so even if nobody is.
bool has_pending(asio::ip::tcp::acceptor& acceptor) {
  pollfd polled{acceptor.native_handle(), POLLIN, 0};
  return poll(&polled, 1, 0) > 0;
}

}  // namespace

// A wake-up costs a besieged rank more than a stranger does. Let in together they share one, and what most of them have
// to say has arrived by then.
awaitable<void> accept_each(asio::ip::tcp::acceptor& acceptor, AcceptOptions door) {
  bool told = false;
  int burst = 0;
  std::uint64_t turned_away = 0;
  const auto besieged = [&] {
    return door.rejected_connections &&
           door.rejected_connections->total() != std::exchange(turned_away, door.rejected_connections->total());
  };
  asio::error_code error;
  acceptor.non_blocking(true, error);
  // Or accept() would wait for the next connection when one is gone before it is let in.
  acceptor.set_option(asio::socket_base::enable_connection_aborted(true), error);
  while (acceptor.is_open()) {
    if (!has_pending(acceptor)) {
      burst = 0;
      if (besieged()) co_await pause(kGathering);
      co_await acceptor.async_wait(asio::socket_base::wait_read, redirect_error(use_awaitable, error));
      if (error) co_return;
    }
    asio::ip::tcp::socket socket = acceptor.accept(error);
    if (!error) {
      door.take(std::move(socket));
      told = false;
      if (++burst % kBurst == 0)
        co_await pause(kBetweenBursts);
      else
        co_await asio::post(use_awaitable);  // whoever came first is heard first
    } else if (!gave_up_meanwhile(error)) {
      if (!std::exchange(told, true))
        log(Severity::warning,
            text(door.who, " cannot accept connections: ", error.message(),
                 error == asio::error::no_descriptors ? "; raise the limit (ulimit -n)" : "", "; trying on"));
      door.make_room();
      co_await pause(kBetweenTries);
    }
  }
}

}  // namespace anello
