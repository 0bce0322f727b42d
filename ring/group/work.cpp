#include <anello/work.hpp>
#include <exception>
#include <utility>

#include "ring/group/operation_queue.hpp"

namespace anello {

Work::Work(std::shared_ptr<group::AsyncOperation> pending) : operation_(std::move(pending)) {}

bool Work::done() const {
  return !operation_ || operation_->done.load(std::memory_order_acquire);
}

std::optional<Error> Work::error() const {
  if (!operation_ || !done()) return std::nullopt;
  return operation_->error;
}

void Work::wait() const {
  if (!done()) operation_->owner->wait(*operation_);
  if (operation_ && operation_->error) throw Error(*operation_->error);
}

bool Work::wait_for(std::chrono::milliseconds limit) const {
  if (!done() && !operation_->owner->wait_for(*operation_, limit)) return false;
  if (operation_ && operation_->error) throw Error(*operation_->error);
  return true;
}

void Work::when_done(std::function<void(const Error*)> callback) {
  if (!done() && operation_->owner->when_done(*operation_, callback)) return;
  callback(operation_ && operation_->error ? &*operation_->error : nullptr);
}

void wait_all(std::span<const Work> works) {
  std::exception_ptr first;
  for (const Work& work : works) {
    try {
      work.wait();
    } catch (const Error&) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace anello
