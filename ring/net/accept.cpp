#include "ring/net/accept.hpp"

#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>
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

awaitable<void> accept_each(asio::ip::tcp::acceptor& acceptor, std::string who, std::function<void()> make_room,
                            std::function<void(asio::ip::tcp::socket)> take) {
  bool told = false;
  while (acceptor.is_open()) {
    asio::error_code error;
    asio::ip::tcp::socket socket = co_await acceptor.async_accept(redirect_error(use_awaitable, error));
    if (!error) {
      take(std::move(socket));
      told = false;
      continue;
    }
    if (error == asio::error::operation_aborted) co_return;
    if (!std::exchange(told, true))
      log(Severity::warning,
          text(who, " cannot accept connections: ", error.message(),
               error == asio::error::no_descriptors ? "; raise the limit (ulimit -n)" : "", "; trying on"));
    make_room();
    co_await pause(std::chrono::milliseconds(20));
  }
}

}  // namespace anello
