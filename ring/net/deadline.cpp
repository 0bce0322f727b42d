#include "ring/net/deadline.hpp"

namespace anello::net {
namespace {

std::chrono::steady_clock::time_point on_a_grid(std::chrono::steady_clock::time_point time) {
  return std::chrono::time_point<std::chrono::steady_clock>(std::chrono::ceil<Deadline::Grid>(time.time_since_epoch()));
}

}  // namespace

Deadline::Deadline(asio::ip::tcp::socket& socket, std::chrono::milliseconds limit)
    : state_(std::make_shared<State>()),
      timer_(socket.get_executor(), on_a_grid(std::chrono::steady_clock::now() + limit)) {
  timer_.async_wait([state = state_, &socket](asio::error_code error) {
    if (error || state->over) return;
    state->passed = true;
    asio::error_code ignored;
    socket.close(ignored);
  });
}

Deadline::~Deadline() {
  state_->over = true;
}

}  // namespace anello::net
