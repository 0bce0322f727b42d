// Runs the coroutines of a thread that waits for them, and ends them if it is interrupted.
#pragma once
#include <asio/io_context.hpp>
#include <chrono>
#include <functional>

#include "rendezvous/interruption.hpp"

namespace anello::rendezvous {

// Blocks until nothing is left to do. `cancel` makes the coroutines end soon; then this throws as
// Interruption::check().
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
