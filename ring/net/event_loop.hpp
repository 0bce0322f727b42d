// The background thread of a world: it runs the event loop of control connections, accepting, handshakes and timers.
// Use objects with this loop's context only on that thread.
#pragma once
#include <asio/executor_work_guard.hpp>
#include <asio/post.hpp>
#include <functional>
#include <new>
#include <thread>
#include <utility>

#include "ring/base/thread.hpp"
#include "ring/net/context.hpp"

namespace anello::net {

class EventLoop {
 public:
  EventLoop() : work_(asio::make_work_guard(context_)), thread_(quiet_thread("connections", [this] { run(); })) {}
  ~EventLoop() { stop(); }
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  asio::io_context& context() { return context_; }

  // Sets the function to call when a handler runs out of memory. The first time this happens, the rest of the handler
  // is not run, the loop's thread calls `call`, and the loop goes on. The second time, or if no function is set, the
  // process ends, as after any other exception.
  void when_out_of_memory(std::function<void()> call) {
    asio::post(context_, [this, call = std::move(call)] { out_of_memory_ = call; });
  }

  // Ends the loop after the current handler, and blocks until the thread has ended. Must not be called on that thread.
  void stop() {
    context_.stop();
    if (thread_.joinable()) thread_.join();
  }

 private:
  void run() {
    for (;;) {
      try {
        context_.run();
        return;
      } catch (const std::bad_alloc&) {
        if (!out_of_memory_) throw;
        std::exchange(out_of_memory_, nullptr)();
      }
    }
  }

  Context context_;
  std::function<void()> out_of_memory_;  // called on the loop's thread
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::thread thread_;
};

}  // namespace anello::net
