#include "ring/group/communicator.hpp"

#include <algorithm>
#include <utility>

#include "ring/base/text.hpp"
#include "ring/base/thread.hpp"

namespace anello {
namespace {

thread_local bool in_callback = false;

// "counts 3, 0, 5"; of many the first.
std::string listed(std::string_view what, std::span<const std::uint64_t> counts) {
  constexpr std::size_t kMost = 16;
  std::string all(what);
  for (std::size_t k = 0; k < std::min(counts.size(), kMost); k++) all += text(k ? ", " : " ", counts[k]);
  return all + (counts.size() > kMost ? ", ..." : "");
}

Patience never_spins(Patience patience) {
  patience.spin = std::chrono::microseconds(0);
  return patience;
}

}  // namespace

Communicator::Communicator(const Charter& charter, Control* control, DataLinks* links)
    : world_rank_(charter.ledger->members()[std::size_t(charter.rank)]),
      control_(control),
      ledger_(charter.ledger),
      callers_waiter_(charter.patience, ledger_->bell()),
      threads_waiter_(never_spins(charter.patience), ledger_->bell()),
      engine_(charter.rank, *ledger_, control, links, charter.timeline,
              {charter.settings.stall_time, charter.settings.operation_limit}, charter.settings.integrity != 0),
      planner_(charter.rank, charter.generation, charter.facts, charter.table, charter.settings) {}

std::string Communicator::describe(const Ticket& ticket) const {
  const Operation& operation = *ticket.operation;
  std::string what = anello::describe(ticket.signature);
  if (!operation.name.empty()) what += text(" '", operation.name, "'");
  if (!operation.counts.empty()) what += text(" with ", listed("counts", operation.counts));
  if (!operation.received.empty()) what += text(" and ", listed("receive counts", operation.received));
  if (ledger_->group() != 0) what += text(" in ", ledger_->name());
  return what;
}

void Communicator::check_may_wait() const {
  if (in_callback)
    throw Error(Code::invalid_argument, "a callback of asynchronous work may not block; start further work instead");
}

void Communicator::run(const Operation& operation) {
  check_may_wait();
  Ticket ticket;
  ticket.operation = &operation;
  Lock lock(mutex_);
  enqueue(ticket, operation);
  wait_until_done(lock, ticket);
  if (ticket.error) throw *ticket.error;
}

// Throws, and then nothing is in the queue.
void Communicator::enqueue(Ticket& ticket, const Operation& operation) {
  if (!head_) planner_.tidy();
  const Planner::Planned& planned = planner_.plan(operation);
  ticket.signature = planned.signature;
  ticket.signature.group = ledger_->group();
  ticket.signature.sequence = submitted_;
  ticket.plan = planned.plan;
  ticket.arithmetic = planned.arithmetic;
  if (!failure_ && control_ && control_->failed()) failure_ = control_->error();
  if (failure_) throw Error(*failure_).within(describe(ticket));
  submitted_++;
  ticket.queued = ticks();
  if (head_ || ticket.lasting) ledger_->queue(ticket.signature, operation.name, ticket.queued);
  ticket.next = nullptr;
  (head_ ? tail_->next : head_) = &ticket;
  tail_ = &ticket;
}

std::shared_ptr<LastingTicket> Communicator::submit(const Operation& operation) {
  Lock lock(mutex_);
  auto ticket = lasting(operation);
  offer_work();
  return ticket;
}

std::shared_ptr<LastingTicket> Communicator::submit(const Operation& counts, const Operation& all_to_all) {
  Lock lock(mutex_);
  lasting(counts);
  auto ticket = lasting(all_to_all);
  offer_work();
  return ticket;
}

std::shared_ptr<LastingTicket> Communicator::lasting(const Operation& operation) {
  auto ticket = spare();
  ticket->keep(operation);
  enqueue(*ticket, operation);
  ticket->self = ticket;
  if (!thread_.joinable()) thread_ = quiet_thread([this] { work(); });
  return ticket;
}

// One that nobody has a handle of any more, if there is one.
std::shared_ptr<LastingTicket> Communicator::spare() {
  const auto unused = [](const auto& ticket) { return ticket.use_count() == 1; };
  const auto found = std::find_if(spare_.begin(), spare_.end(), unused);
  if (found == spare_.end()) return std::make_shared<LastingTicket>(*this);
  auto ticket = std::move(*found);
  *found = std::move(spare_.back());
  spare_.pop_back();
  ticket->done.store(false, std::memory_order_relaxed);
  ticket->error.reset();
  ticket->when_done = nullptr;
  return ticket;
}

void Communicator::wait_until_done(Lock& lock, const Ticket& ticket) {
  while (!ticket.done.load(std::memory_order_relaxed)) {
    if (!driven_ && closed_ == 0) {
      drive(lock, callers_waiter_, closed_, [&] { return ticket.done.load(std::memory_order_relaxed); });
      continue;
    }
    wanted_++;
    watching_++;
    ledger_->bell().ring();  // the thread may sleep
    changed_.wait(lock);
    watching_--;
    wanted_--;
  }
  offer_work();                             // it did not take any while the baton was wanted
  if (closed_ != 0) changed_.notify_all();  // close() waits for those who watch
}

void Communicator::offer_work() {
  if (head_ && !driven_ && thread_.joinable()) work_.notify_one();
}

void Communicator::wait(const LastingTicket& ticket) {
  check_may_wait();
  Lock lock(mutex_);
  wait_until_done(lock, ticket);
}

bool Communicator::wait_for(const LastingTicket& ticket, std::chrono::milliseconds limit) {
  check_may_wait();
  Lock lock(mutex_);
  watching_++;
  const bool done = changed_.wait_for(lock, limit, [&] { return ticket.done.load(std::memory_order_relaxed); });
  watching_--;
  if (closed_ != 0) changed_.notify_all();  // close() waits for those who watch
  return done;
}

bool Communicator::when_done(LastingTicket& ticket, std::function<void(const Error*)> callback) {
  const Lock lock(mutex_);
  if (ticket.done) return false;
  ticket.when_done = std::move(callback);
  return true;
}

// Has the baton while it lasts.
template <class Until>
void Communicator::drive(Lock& lock, Waiter& waiter, const std::atomic<int>& interrupt, Until until) {
  driven_ = true;
  while (head_ && closed_ == 0 && !until())
    if (advance(lock, *head_, waiter, interrupt)) complete(lock);
  driven_ = false;
  if (watching_ > 0) changed_.notify_all();
}

// True if the head is complete; if it failed, nothing is left in the queue.
bool Communicator::advance(Lock& lock, Ticket& head, Waiter& waiter, const std::atomic<int>& interrupt) {
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
    fail_all(lock, Error(Code::aborted, text("rank ", world_rank_, " cannot go on: ", e.what()), world_rank_));
  }
  return false;
}

// What a caller's ticket is may be gone as soon as the lock is.
void Communicator::complete(Lock& lock) {
  Ticket& ticket = *head_;
  head_ = ticket.next;
  begun_ = false;
  completed_ += !ticket.error;
  LastingTicket* const lasting = ticket.lasting;
  if (!lasting) {
    ticket.done.store(true, std::memory_order_release);
  } else {
    const auto self = std::move(lasting->self);
    const auto when_done = std::exchange(lasting->when_done, nullptr);
    ticket.done.store(true, std::memory_order_release);
    if (spare_.size() < kSpareTickets) spare_.push_back(self);
    if (when_done) {
      lock.unlock();
      in_callback = true;
      when_done(ticket.error ? &*ticket.error : nullptr);
      in_callback = false;
      lock.lock();
    }
  }
  if (watching_ > 0) changed_.notify_all();
}

// The head's error says how far it got.
void Communicator::fail_all(Lock& lock, const Error& cause) {
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
Error Communicator::verdict(const Error& cause) {
  if (!control_) return cause;
  if (cause.code() == Code::network && cause.rank() >= 0)
    control_->suspect(cause.rank(), ledger_->group(), cause.message());
  if (cause.code() == Code::mismatch || cause.code() == Code::protocol || cause.code() == Code::diverged ||
      cause.code() == Code::aborted)
    control_->propose({cause.code(), cause.rank(), cause.message()});
  return control_->error();
}

void Communicator::work() {
  Lock lock(mutex_);
  while (closed_ == 0) {
    if (head_ && !driven_ && wanted_ == 0)
      drive(lock, threads_waiter_, wanted_, [&] { return wanted_ > 0; });
    else
      work_.wait(lock);
  }
}

std::optional<Error> Communicator::failure() const {
  if (control_ && control_->failed()) return control_->error();
  const Lock lock(mutex_);
  return failure_;
}

void Communicator::end(Error why) {
  const Lock lock(mutex_);
  if (!failure_) failure_ = std::move(why);
}

void Communicator::close() {
  {
    const Lock lock(mutex_);
    closed_ = 1;
    wanted_++;
    ledger_->bell().ring();
    work_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
  Lock lock(mutex_);
  watching_++;
  changed_.wait(lock, [&] { return !driven_; });
  watching_--;
  if (!failure_) failure_ = Error(Code::aborted, "this rank's world, or the group, has ended");
  while (head_) {
    head_->error = Error(*failure_).within(describe(*head_));
    complete(lock);
  }
  changed_.wait(lock, [&] { return watching_ == 0; });
}

std::uint64_t Communicator::completed() const {
  const Lock lock(mutex_);
  return completed_;
}

}  // namespace anello
