// The one background thread of a world: runs the event loop that control connections, accepting, handshakes and timers
// live in. Everything registered with its context is touched on that thread only.
#pragma once
#include <signal.h>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <thread>

namespace anello {

class Background {
 public:
  Background() : work_(asio::make_work_guard(context_)) {
    // Signals are the program's: its handlers run on its own threads, and interrupt them.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] { context_.run(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  ~Background() { stop(); }
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  asio::io_context& context() { return context_; }

  // Ends the loop where it is and waits for the thread. Not from the thread itself.
  void stop() {
    context_.stop();
    if (thread_.joinable()) thread_.join();
  }

 private:
  asio::io_context context_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::thread thread_;
};

}  // namespace anello
