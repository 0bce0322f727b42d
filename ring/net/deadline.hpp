// A time limit for all operations of a coroutine on one socket. When it passes, the socket is closed, and every
// operation on it fails, now and later. Lives on the coroutine's stack. The socket must not move, and must outlive this
// object. Socket, timer and coroutine share an executor that runs one handler at a time (one thread, or a strand).
#pragma once
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <memory>

namespace anello::net {

class Deadline {
 public:
  // A deadline may take effect up to 20 ms late: all deadlines in one step of this grid share a wake-up.
  using Grid = std::chrono::duration<std::int64_t, std::ratio<1, 50>>;

  Deadline(asio::ip::tcp::socket& socket, std::chrono::milliseconds limit);
  ~Deadline();
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

  // Check this also after the last operation, because it may have succeeded just before the socket was closed.
  bool passed() const { return state_->passed; }

 private:
  // The state outlives the Deadline while the timer's handler is queued.
  struct State {
    bool over = false, passed = false;
  };
  std::shared_ptr<State> state_;
  asio::steady_timer timer_;
};

}  // namespace anello::net
