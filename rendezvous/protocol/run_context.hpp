// Runs coroutines while the calling thread waits for them, and ends them if the wait is interrupted.
#pragma once
#include <asio/io_context.hpp>
#include <chrono>
#include <functional>

#include "rendezvous/protocol/interruption.hpp"

namespace anello::rendezvous {

// Blocks until no coroutine is left. If the wait is interrupted, calls `cancel`, which must make the coroutines end
// soon, and then throws as Interruption::check() does.
inline void run_to_end(asio::io_context& context, const std::function<void()>& cancel) {
  context.restart();
  while (!context.stopped()) {
    context.run_for(Interruption::slice(std::chrono::hours(1)));
    if (context.stopped() || !Interruption::asked()) continue;
    cancel();
    context.run();
    Interruption::check();
  }
}

}  // namespace anello::rendezvous
