// Starts a coroutine whose end no caller waits for. An exception that leaves it leaves the event loop too, so that it
// ends the process and the other ranks receive its text; asio::detached would drop it, and the coroutine's work would
// silently never be done. A coroutine that serves unauthenticated connections catches whatever these can cause. Thread:
// any; the coroutine runs on the thread of its executor.
#pragma once
#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <exception>
#include <utility>

namespace anello::net {

// `where`: an executor or a context. What the coroutine returns is dropped.
template <class Where, class Result>
void spawn(Where&& where, asio::awaitable<Result> coroutine) {
  asio::co_spawn(std::forward<Where>(where), std::move(coroutine), [](const std::exception_ptr& thrown, auto&&...) {
    if (thrown) std::rethrow_exception(thrown);
  });
}

}  // namespace anello::net
