#include "rendezvous/connection.hpp"

#include <asio/buffer.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>

#include "ring/net/addresses.hpp"

namespace anello::rendezvous {
namespace {
constexpr std::chrono::milliseconds kLingerLimit{5000};
}

Connection::Connection(asio::ip::tcp::socket socket) : socket_(std::move(socket)) {
  asio::error_code ignored;
  const auto remote = socket_.remote_endpoint(ignored);
  peer_ = host_port(remote.address().to_string(), remote.port());
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
}

void Connection::send(Frame frame) {
  if (last_) return;
  outbox_.push_back(std::move(frame));
  if (draining_) return;
  draining_ = true;
  const auto drained = [self = shared_from_this()](const std::exception_ptr&) { self->draining_ = false; };
  asio::co_spawn(socket_.get_executor(), drain(), drained);
}

void Connection::send_last(Frame frame) {
  send(std::move(frame));
  last_ = true;
  end_.emplace(socket_, kLingerLimit);
}

void Connection::close() {
  asio::error_code ignored;
  socket_.close(ignored);
  end_.reset();
}

asio::awaitable<void> Connection::drain() {
  asio::error_code failure;
  while (!outbox_.empty() && !failure) {
    const Frame frame = std::move(outbox_.front());
    outbox_.pop_front();
    co_await asio::async_write(socket_, asio::buffer(*frame), asio::redirect_error(asio::use_awaitable, failure));
  }
  if (failure) {
    socket_.close(failure);
  } else if (last_) {
    socket_.shutdown(asio::ip::tcp::socket::shutdown_send, failure);
  }
}

}  // namespace anello::rendezvous
