#include "ring/group/operation_queue.hpp"

#include <algorithm>
#include <utility>

#include "ring/base/text.hpp"
#include "ring/group/device_memory.hpp"
#include "ring/group/drive_loop.hpp"

namespace anello::group {

OperationQueue::OperationQueue(const GroupConfig& config, control::ControlPlane* control, net::DataLinks* links)
    : world_rank_(config.group->members[std::size_t(config.rank)]),
      control_(control),
      group_(config.group),
      recorder_(config.recorder),
      baton_(*config.group->bell),
      waiter_(config.wait_policy, *config.group->bell),
      runner_(config.rank, *group_, *recorder_, control, links, config.timeline,
              {config.settings.stall_time, config.settings.operation_limit, config.settings.silence_limit / 2},
              config.settings.integrity != 0),
      planner_(config.rank, config.generation, config.facts, config.table, config.settings, config.hosts),
      progress_thread_(config.progress_thread) {}

void OperationQueue::run(const Call& operation) {
  caller_.check_may_wait();
  Lock lock(mutex_);
  Operation pending(operation, plan(operation));
  prepare(pending);
  enqueue(pending);
  wait_until_done(lock, pending);
  if (pending.error) throw *pending.error;
}

// Does nothing if the world has failed, because all ranks already have the reason. If this function runs out of memory,
// the other ranks continue to wait, as for a rank that is late.
void OperationQueue::refused(std::string_view why) noexcept {
  if (caller_.in_child() || !control_) return;
  try {
    const Lock lock(mutex_);
    if (!has_failed()) control_->refused(group_->id, pending_.submitted(), std::string(why));
  } catch (const std::exception&) {
  }
}

// Plans an operation. `earlier`: how many operations will be queued before it, in addition to those already queued.
const Planner::Planned& OperationQueue::plan(const Call& operation, std::uint64_t earlier) {
  require_host_memory(operation);
  planner_.tidy(pending_.oldest(), pending_.submitted() + earlier);
  return planner_.plan(operation);
}

// Completes the signature: the values that have no effect on the plan, and the place in the queue after `earlier` more
// operations. If this throws, nothing has changed.
void OperationQueue::prepare(Operation& pending, std::uint64_t earlier) {
  const Call& call = *pending.call;
  pending.signature.group = group_->id;
  pending.signature.sequence = pending_.submitted() + earlier;
  pending.signature.fingerprint = call.fingerprint;
  pending.signature.hidden = {.known = true, .postscale = call.postscale, .token = call.token};
  if (has_failed()) throw Error(*failure_).within(describe(pending, *group_));
}

bool OperationQueue::has_failed() {
  if (!failure_ && control_ && control_->failed()) failure_ = control_->error();
  return failure_.has_value();
}

void OperationQueue::enqueue(Operation& pending, const std::shared_ptr<AsyncOperation>& async) {
  pending.queued = trace::ticks();
  pending.begins_at_once = pending_.empty() && !pending.async && !baton_.held();
  if (!pending.begins_at_once) recorder_->queue(pending.signature, pending.call->name, pending.queued);
  pending_.push(pending);
  if (async) async->self = async;
}

std::shared_ptr<AsyncOperation> OperationQueue::submit(const Call& operation) {
  auto pending = submit_quietly(operation);
  offer_work();
  return pending;
}

std::shared_ptr<AsyncOperation> OperationQueue::submit_quietly(const Call& operation,
                                                               std::function<void(const Error*)> when_done) {
  caller_.check_process();
  const Lock lock(mutex_);
  auto pending = prepare_async(operation);
  pending->when_done = std::move(when_done);
  enqueue(*pending, pending);
  return pending;
}

std::shared_ptr<AsyncOperation> OperationQueue::submit(const Call& counts, const Call& alltoall) {
  caller_.check_process();
  Lock lock(mutex_);
  const auto exchange = prepare_async(counts);
  auto pending = prepare_async(alltoall, 1);
  enqueue(*exchange, exchange);
  enqueue(*pending, pending);
  offer();
  return pending;
}

std::shared_ptr<AsyncOperation> OperationQueue::prepare_async(const Call& operation, std::uint64_t earlier) {
  if (!asynchronous_) progress_thread_->start();  // called before the operation is queued, because start() may throw
  asynchronous_ = true;
  auto pending = pool_.take(*this);
  pending->keep(operation);
  static_cast<Planner::Planned&>(*pending) = plan(operation, earlier);
  prepare(*pending, earlier);
  return pending;
}

bool OperationQueue::wait_until_done(Lock& lock, const Operation& pending, const Until& until) {
  const std::atomic<int>& closed = baton_.closed();
  const auto advance_head = [&] { return runner_.advance(waiter_, closed, until); };
  const auto move = [&]() ANELLO_REQUIRES(mutex_) {
    if (!pending_.empty() && advance(lock, *pending_.head(), advance_head)) complete(lock);
    return !pending_.empty();
  };
  drive(baton_, lock, pending.done, until, move, [this]() ANELLO_REQUIRES(mutex_) { release(); });
  offer();  // the progress thread gets the remaining work, which it had left to this caller
  return pending.done.load(std::memory_order_relaxed);
}

// No thread uses the links while no operation is queued; a thread may have the baton, but only to run a callback. `use`
// keeps the world from ending while this thread waits for the world's verdict.
bool OperationQueue::has_arrived(int peer) {
  caller_.check_process();
  Lock lock(mutex_);
  const Baton::Use use(baton_);
  if (pending_.empty() && !has_failed()) {
    try {
      if (runner_.has_arrived(peer)) return true;
      const bool asked = std::exchange(asked_why_, !recorder_->can_begin(pending_.submitted()));
      if (asked_why_ && !asked) control_->needs_messages(group_->id, UINT64_MAX, "still expects data from it");
    } catch (const Error& e) {
      std::optional<Error> why;
      {
        const MutexUnlock unlocked(lock, mutex_);
        why = verdict(e);
      }
      if (!failure_) failure_ = why;
    }
  }
  if (has_failed()) throw Error(*failure_).within(text("probe in ", group_->name));
  return false;
}

bool OperationQueue::adds_in_rank_order(const Call& call) const {
  const Lock lock(mutex_);
  return planner_.adds_in_rank_order(call);
}

void OperationQueue::offer_work() {
  const Lock lock(mutex_);
  offer();
}

void OperationQueue::offer() {
  if (!pending_.empty() && asynchronous_ && !baton_.held()) progress_thread_->offer(shared_from_this());
}

bool OperationQueue::wait(const AsyncOperation& operation, const Until& until) {
  caller_.check_may_wait();
  Lock lock(mutex_);
  return wait_until_done(lock, operation, until);
}

bool OperationQueue::wait_for(const AsyncOperation& operation, std::chrono::milliseconds limit) {
  caller_.check_may_wait();
  constexpr std::chrono::milliseconds kMax = std::chrono::hours(24 * 365 * 100);  // a longer time would overflow
  Lock lock(mutex_);
  return baton_.wait_for(lock, std::min(limit, kMax), operation.done);
}

bool OperationQueue::when_done(AsyncOperation& operation, std::function<void(const Error*)> callback) {
  caller_.check_process();
  const Lock lock(mutex_);
  if (operation.done) return false;
  operation.when_done = std::move(callback);
  return true;
}

// Call with the baton. Returns true if the head of the queue is complete. If the head failed, the queue is empty
// afterwards.
template <class Advance>
bool OperationQueue::advance(Lock& lock, Operation& head, Advance advance) {
  const bool begun = pending_.begin();
  try {
    const MutexUnlock unlocked(lock, mutex_);
    if (!begun) runner_.start(head);
    return advance();
  } catch (const std::exception& e) {
    fail_all(lock, e);
  }
  return false;
}

// A blocking call may return and destroy its operation as soon as the lock is released.
void OperationQueue::complete(Lock& lock) {
  Operation& pending = *pending_.head();
  pending_.pop();
  if (pending.async)
    complete_async(lock, *pending.async);
  else
    pending.done.store(true, std::memory_order_release);
  baton_.announce();
  if (!pending_.has_callback()) return;
  const auto when_empty = pending_.take_callback();
  const MutexUnlock unlocked(lock, mutex_);
  when_empty();
}

bool OperationQueue::when_idle(std::function<void()> callback) {
  const Lock lock(mutex_);
  return pending_.when_empty(std::move(callback));
}

void OperationQueue::complete_async(Lock& lock, AsyncOperation& operation) {
  const auto self = std::move(operation.self);  // keeps the operation alive until this function ends
  auto when_done = std::exchange(operation.when_done, nullptr);
  operation.done.store(true, std::memory_order_release);
  pool_.put(self);
  if (!when_done) return;
  const MutexUnlock unlocked(lock, mutex_);
  CallerChecks::call_back([&] {
    when_done(operation.error ? &*operation.error : nullptr);
    when_done = nullptr;  // destroyed without the lock: it may hold the group's last handle
  });
}

OperationQueue::Progress OperationQueue::progress() {
  Lock lock(mutex_);
  if (pending_.empty() || !baton_.try_acquire()) return Progress::none;
  auto step = OperationRunner::Step::stuck;
  const bool complete_now = advance(lock, *pending_.head(), [&] {
    step = runner_.step();
    return step == OperationRunner::Step::complete;
  });
  if (complete_now) complete(lock);
  release();
  return !pending_.empty() && step == OperationRunner::Step::stuck ? Progress::stuck : Progress::moved;
}

bool OperationQueue::prepare_sleep(link::Waiter& waiter, std::chrono::milliseconds& limit) {
  Lock lock(mutex_);
  if (!pending_.begun() || !baton_.try_acquire()) return false;
  bool may_sleep = false;
  advance(lock, *pending_.head(), [&] { return !(may_sleep = runner_.prepare_sleep(waiter, limit)); });
  if (!may_sleep) release();
  return may_sleep;
}

void OperationQueue::slept(trace::Ticks from) {
  const Lock lock(mutex_);
  runner_.slept(from);
  release();
}

// After close() has set failure_, the control plane may no longer exist.
std::optional<Error> OperationQueue::failure() const {
  if (caller_.in_child()) return std::nullopt;
  const Lock lock(mutex_);
  if (!failure_ && control_ && control_->failed()) return control_->error();
  return failure_;
}

void OperationQueue::release() {
  baton_.release();
  leave_if_abandoned();
}

void OperationQueue::leave_if_abandoned() {
  if (!abandoned_ || left_ || !pending_.empty() || baton_.held()) return;
  left_ = true;
  if (control_) control_->leave_group(group_->id, pending_.completed());
}

bool OperationQueue::idle() const {
  const Lock lock(mutex_);
  return pending_.empty() && !baton_.held();
}

void OperationQueue::carried_out(std::uint64_t operations) {
  const Lock lock(mutex_);
  pending_.set_completed(operations);
}

std::uint64_t OperationQueue::completed() const {
  const Lock lock(mutex_);
  return pending_.completed();
}

}  // namespace anello::group
