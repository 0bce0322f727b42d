// The one background thread of a world: runs the event loop that control connections, accepting, handshakes and timers
// live in. Everything registered with its context is touched on that thread only.
#pragma once
#include <asio/executor_work_guard.hpp>
#include <thread>

#include "ring/base/thread.hpp"
#include "ring/net/context.hpp"

namespace anello::net {

class EventLoop {
 public:
  EventLoop() : work_(asio::make_work_guard(context_)), thread_(quiet_thread([this] { context_.run(); })) {}
  ~EventLoop() { stop(); }
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  asio::io_context& context() { return context_; }

  // Ends the loop after the current handler, and blocks until the thread has ended. Not from the thread itself.
  void stop() {
    context_.stop();
    if (thread_.joinable()) thread_.join();
  }

 private:
  Context context_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::thread thread_;
};

}  // namespace anello::net
