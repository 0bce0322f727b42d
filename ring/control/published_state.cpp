#include "ring/control/published_state.hpp"

#include <utility>

namespace anello::control {

void PublishedState::connected(int peer) {
  const MutexLock lock(mutex_);
  connected_.push_back(peer);
  changed_.notify_all();
}

void PublishedState::start_failed(Error error) {
  const MutexLock lock(mutex_);
  start_error_ = std::move(error);
  changed_.notify_all();
}

bool PublishedState::wait_for_start(std::size_t count, std::chrono::milliseconds limit) const {
  MutexLock lock(mutex_);
  return changed_.wait_for(lock, limit, [this, count]() ANELLO_REQUIRES(mutex_) {
    return start_error_ || verdict_ || connected_.size() == count;
  });
}

bool PublishedState::may_have_deeper_cause() const {
  const MutexLock lock(mutex_);
  return start_error_ || (verdict_ && verdict_->code == ErrorCode::rank_dead);
}

void PublishedState::throw_if_failed() const {
  const MutexLock lock(mutex_);
  if (start_error_) throw *start_error_;
  if (verdict_) throw Error(verdict_->code, verdict_->message, verdict_->culprit);
}

std::vector<int> PublishedState::connected() const {
  const MutexLock lock(mutex_);
  return connected_;
}

Error PublishedState::error() const {
  MutexLock lock(mutex_);
  changed_.wait_for(lock, std::chrono::seconds(3), [this]() ANELLO_REQUIRES(mutex_) { return verdict_.has_value(); });
  if (verdict_) changed_.wait_for(lock, std::chrono::seconds(1), [this]() ANELLO_REQUIRES(mutex_) { return handled_; });
  if (verdict_) return Error(verdict_->code, verdict_->message, verdict_->culprit);
  return Error(ErrorCode::network, "a connection was lost, and the ranks did not agree on why");
}

bool PublishedState::publish(const std::optional<failure::Verdict>& verdict, bool read, bool closed) {
  const MutexLock lock(mutex_);
  read_ = read;
  closed_ = closed;
  const bool fresh = verdict && !verdict_;
  if (fresh) verdict_ = verdict;
  if (fresh) set_failed();
  changed_.notify_all();
  return fresh;
}

void PublishedState::handled() {
  const MutexLock lock(mutex_);
  handled_ = true;
  changed_.notify_all();
}

bool PublishedState::sent() const {
  const MutexLock lock(mutex_);
  return sent_;
}

void PublishedState::set_sent() {
  const MutexLock lock(mutex_);
  sent_ = true;
  changed_.notify_all();
}

void PublishedState::wait_until_read(Clock::time_point end) const {
  MutexLock lock(mutex_);
  changed_.wait_until(lock, end, [this]() ANELLO_REQUIRES(mutex_) { return read_ || failed(); });
}

void PublishedState::wait_until_sent(Clock::time_point end) const {
  MutexLock lock(mutex_);
  changed_.wait_until(lock, end, [this]() ANELLO_REQUIRES(mutex_) { return closed_ || (sent_ && failed()); });
}

void PublishedState::wait_until_closed(Clock::time_point end) const {
  MutexLock lock(mutex_);
  changed_.wait_until(lock, end, [this]() ANELLO_REQUIRES(mutex_) { return closed_; });
}

}  // namespace anello::control
