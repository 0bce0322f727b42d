#include "ring/group/operation_queue.hpp"

#include <algorithm>
#include <utility>

#include "ring/base/text.hpp"
#include "ring/base/thread.hpp"

namespace anello {
namespace {

thread_local bool in_callback = false;

// "counts 3, 0, 5"; of many the first.
std::string listed(std::string_view what, std::span<const std::uint64_t> counts) {
  constexpr std::size_t kMax = 16;
  std::string all(what);
  for (std::size_t k = 0; k < std::min(counts.size(), kMax); k++) all += text(k ? ", " : " ", counts[k]);
  return all + (counts.size() > kMax ? ", ..." : "");
}

WaitPolicy never_spins(WaitPolicy patience) {
  patience.spin = std::chrono::microseconds(0);
  return patience;
}

}  // namespace

OperationQueue::OperationQueue(const GroupConfig& config, ControlPlane* control, DataLinks* links)
    : world_rank_(config.recorder->members()[std::size_t(config.rank)]),
      control_(control),
      recorder_(config.recorder),
      callers_waiter_(config.patience, recorder_->bell()),
      threads_waiter_(never_spins(config.patience), recorder_->bell()),
      engine_(config.rank, *recorder_, control, links, config.timeline,
              {config.settings.stall_time, config.settings.operation_limit}, config.settings.integrity != 0),
      planner_(config.rank, config.generation, config.facts, config.table, config.settings) {}

std::string OperationQueue::describe(const PendingOperation& pending) const {
  const Operation& operation = *pending.operation;
  std::string what = anello::describe(pending.signature);
  if (!operation.name.empty()) what += text(" '", operation.name, "'");
  if (!operation.counts.empty()) what += text(" with ", listed("counts", operation.counts));
  if (!operation.received.empty()) what += text(" and ", listed("receive counts", operation.received));
  if (recorder_->group() != 0) what += text(" in ", recorder_->name());
  return what;
}

void OperationQueue::check_may_wait() const {
  if (in_callback)
    throw Error(ErrorCode::invalid_argument,
                "a callback of asynchronous work may not block; start further work instead");
}

void OperationQueue::run(const Operation& operation) {
  check_may_wait();
  PendingOperation pending;
  pending.operation = &operation;
  Lock lock(mutex_);
  enqueue(pending, operation);
  wait_until_done(lock, pending);
  if (pending.error) throw *pending.error;
}

// Throws, and then nothing is in the queue.
void OperationQueue::enqueue(PendingOperation& pending, const Operation& operation) {
  if (!head_) planner_.tidy();
  const Planner::Planned& planned = planner_.plan(operation);
  pending.signature = planned.signature;
  pending.signature.group = recorder_->group();
  pending.signature.sequence = submitted_;
  pending.plan = planned.plan;
  pending.arithmetic = planned.arithmetic;
  if (!failure_ && control_ && control_->failed()) failure_ = control_->error();
  if (failure_) throw Error(*failure_).within(describe(pending));
  submitted_++;
  pending.queued = ticks();
  if (head_ || pending.lasting) recorder_->queue(pending.signature, operation.name, pending.queued);
  pending.next = nullptr;
  (head_ ? tail_->next : head_) = &pending;
  tail_ = &pending;
}

std::shared_ptr<AsyncOperation> OperationQueue::submit(const Operation& operation) {
  Lock lock(mutex_);
  auto pending = lasting(operation);
  offer_work();
  return pending;
}

std::shared_ptr<AsyncOperation> OperationQueue::submit(const Operation& counts, const Operation& alltoall) {
  Lock lock(mutex_);
  lasting(counts);
  auto pending = lasting(alltoall);
  offer_work();
  return pending;
}

std::shared_ptr<AsyncOperation> OperationQueue::lasting(const Operation& operation) {
  auto pending = spare();
  pending->keep(operation);
  enqueue(*pending, operation);
  pending->self = pending;
  if (!thread_.joinable()) thread_ = quiet_thread([this] { work(); });
  return pending;
}

// One that nobody has a handle of any more, if there is one.
std::shared_ptr<AsyncOperation> OperationQueue::spare() {
  const auto unused = [](const auto& pending) { return pending.use_count() == 1; };
  const auto found = std::find_if(spare_.begin(), spare_.end(), unused);
  if (found == spare_.end()) return std::make_shared<AsyncOperation>(*this);
  auto pending = std::move(*found);
  *found = std::move(spare_.back());
  spare_.pop_back();
  pending->done.store(false, std::memory_order_relaxed);
  pending->error.reset();
  pending->when_done = nullptr;
  return pending;
}

void OperationQueue::wait_until_done(Lock& lock, const PendingOperation& pending) {
  while (!pending.done.load(std::memory_order_relaxed)) {
    if (!driven_ && closed_ == 0) {
      drive(lock, callers_waiter_, closed_, [&] { return pending.done.load(std::memory_order_relaxed); });
      continue;
    }
    wanted_++;
    watching_++;
    recorder_->bell().ring();  // the thread may sleep
    changed_.wait(lock);
    watching_--;
    wanted_--;
  }
  offer_work();                             // it did not take any while the baton was wanted
  if (closed_ != 0) changed_.notify_all();  // close() waits for those who watch
}

void OperationQueue::offer_work() {
  if (head_ && !driven_ && thread_.joinable()) work_.notify_one();
}

void OperationQueue::wait(const AsyncOperation& pending) {
  check_may_wait();
  Lock lock(mutex_);
  wait_until_done(lock, pending);
}

bool OperationQueue::wait_for(const AsyncOperation& pending, std::chrono::milliseconds limit) {
  check_may_wait();
  Lock lock(mutex_);
  watching_++;
  const bool done = changed_.wait_for(lock, limit, [&] { return pending.done.load(std::memory_order_relaxed); });
  watching_--;
  if (closed_ != 0) changed_.notify_all();  // close() waits for those who watch
  return done;
}

bool OperationQueue::when_done(AsyncOperation& pending, std::function<void(const Error*)> callback) {
  const Lock lock(mutex_);
  if (pending.done) return false;
  pending.when_done = std::move(callback);
  return true;
}

// Has the baton while it lasts.
template <class Until>
void OperationQueue::drive(Lock& lock, Waiter& waiter, const std::atomic<int>& interrupt, Until until) {
  driven_ = true;
  while (head_ && closed_ == 0 && !until())
    if (advance(lock, *head_, waiter, interrupt)) complete(lock);
  driven_ = false;
  if (watching_ > 0) changed_.notify_all();
}

// True if the head is complete; if it failed, nothing is left in the queue.
bool OperationQueue::advance(Lock& lock, PendingOperation& head, Waiter& waiter, const std::atomic<int>& interrupt) {
  const bool begun = std::exchange(begun_, true);
  lock.unlock();
  try {
    if (!begun) engine_.start(head);
    const bool complete = engine_.advance(waiter, interrupt);
    lock.lock();
    return complete;
  } catch (const Error& e) {
    fail_all(lock, e);
  } catch (const std::exception& e) {  // no memory
    fail_all(lock, Error(ErrorCode::aborted, text("rank ", world_rank_, " cannot go on: ", e.what()), world_rank_));
  }
  return false;
}

// What a caller's pending operation is may be gone as soon as the lock is.
void OperationQueue::complete(Lock& lock) {
  PendingOperation& pending = *head_;
  head_ = pending.next;
  begun_ = false;
  completed_ += !pending.error;
  AsyncOperation* const lasting = pending.lasting;
  if (!lasting) {
    pending.done.store(true, std::memory_order_release);
  } else {
    const auto self = std::move(lasting->self);
    const auto when_done = std::exchange(lasting->when_done, nullptr);
    pending.done.store(true, std::memory_order_release);
    if (spare_.size() < kSpareTickets) spare_.push_back(self);
    if (when_done) {
      lock.unlock();
      in_callback = true;
      when_done(pending.error ? &*pending.error : nullptr);
      in_callback = false;
      lock.lock();
    }
  }
  if (watching_ > 0) changed_.notify_all();
}

// The head's error says how far it got.
void OperationQueue::fail_all(Lock& lock, const Error& cause) {
  const std::string how_far = engine_.how_far();
  const Error why = verdict(cause);
  lock.lock();
  failure_ = why;
  for (bool first = true; head_; first = false) {
    head_->error = Error(why).within(describe(*head_) + (first ? ", " + how_far : ""));
    complete(lock);
  }
}

// Every rank throws the same, whoever noticed first.
Error OperationQueue::verdict(const Error& cause) {
  if (!control_) return cause;
  if (cause.code() == ErrorCode::network && cause.rank() >= 0)
    control_->suspect(cause.rank(), recorder_->group(), cause.message());
  if (cause.code() == ErrorCode::mismatch || cause.code() == ErrorCode::protocol ||
      cause.code() == ErrorCode::diverged || cause.code() == ErrorCode::aborted)
    control_->propose({cause.code(), cause.rank(), cause.message()});
  return control_->error();
}

void OperationQueue::work() {
  Lock lock(mutex_);
  while (closed_ == 0) {
    if (head_ && !driven_ && wanted_ == 0)
      drive(lock, threads_waiter_, wanted_, [&] { return wanted_ > 0; });
    else
      work_.wait(lock);
  }
}

std::optional<Error> OperationQueue::failure() const {
  if (control_ && control_->failed()) return control_->error();
  const Lock lock(mutex_);
  return failure_;
}

void OperationQueue::end(Error why) {
  const Lock lock(mutex_);
  if (!failure_) failure_ = std::move(why);
}

void OperationQueue::close() {
  {
    const Lock lock(mutex_);
    closed_ = 1;
    wanted_++;
    recorder_->bell().ring();
    work_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
  Lock lock(mutex_);
  watching_++;
  changed_.wait(lock, [&] { return !driven_; });
  watching_--;
  if (!failure_) failure_ = Error(ErrorCode::aborted, "this rank's world, or the group, has ended");
  while (head_) {
    head_->error = Error(*failure_).within(describe(*head_));
    complete(lock);
  }
  changed_.wait(lock, [&] { return watching_ == 0; });
}

std::uint64_t OperationQueue::completed() const {
  const Lock lock(mutex_);
  return completed_;
}

}  // namespace anello
