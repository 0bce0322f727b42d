#include <anello/work.hpp>
#include <utility>

#include "ring/group/communicator.hpp"

namespace anello {

Work::Work(std::shared_ptr<LastingTicket> ticket) : ticket_(std::move(ticket)) {}

bool Work::done() const {
  return !ticket_ || ticket_->done.load(std::memory_order_acquire);
}

std::optional<Error> Work::error() const {
  if (!ticket_ || !done()) return std::nullopt;
  return ticket_->error;
}

void Work::wait() {
  if (!done()) ticket_->owner.wait(*ticket_);
  if (ticket_ && ticket_->error) throw Error(*ticket_->error);
}

bool Work::wait_for(std::chrono::milliseconds limit) {
  if (!done() && !ticket_->owner.wait_for(*ticket_, limit)) return false;
  if (ticket_ && ticket_->error) throw Error(*ticket_->error);
  return true;
}

void Work::when_done(std::function<void(const Error*)> callback) {
  if (!done() && ticket_->owner.when_done(*ticket_, callback)) return;
  callback(ticket_ && ticket_->error ? &*ticket_->error : nullptr);
}

}  // namespace anello
