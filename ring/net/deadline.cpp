#include "ring/net/deadline.hpp"

namespace anello {

Deadline::Deadline(asio::ip::tcp::socket& socket, std::chrono::milliseconds limit)
    : state_(std::make_shared<State>()), timer_(socket.get_executor(), limit) {
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

}  // namespace anello
