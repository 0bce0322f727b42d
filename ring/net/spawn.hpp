// Starts a coroutine that no caller waits for. An exception that leaves the coroutine also leaves the event loop; so
// the process ends, and the other ranks receive the exception's text. With asio::detached the exception would be
// dropped, and the rest of the coroutine's work would be lost without a message. A coroutine that serves
// unauthenticated connections must therefore catch all errors that such connections can cause. Any thread may call
// spawn(); the coroutine runs on the thread of its executor.
#pragma once
#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <exception>
#include <utility>

namespace anello::net {

// `where`: an executor or a context. The coroutine's result is dropped.
template <class Where, class Result>
void spawn(Where&& where, asio::awaitable<Result> coroutine) {
  asio::co_spawn(std::forward<Where>(where), std::move(coroutine), [](const std::exception_ptr& thrown, auto&&...) {
    if (thrown) std::rethrow_exception(thrown);
  });
}

}  // namespace anello::net
