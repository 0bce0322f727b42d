#include "ring/agenda/scheduler.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "ring/base/log.hpp"
#include "ring/base/text.hpp"
#include "ring/group/drive_loop.hpp"

namespace anello::agenda {

using std::chrono::milliseconds;

std::shared_ptr<Scheduler> Scheduler::make(const Group& group) {
  std::vector<int> all(std::size_t(group.size()));
  std::iota(all.begin(), all.end(), 0);
  Group messages = group.group(all), data = group.group(all);  // all ranks make the two groups in this order
  std::shared_ptr<Scheduler> made(new Scheduler(std::move(messages), std::move(data)));
  GroupAccess::when_leaving(made->messages_, [weak = std::weak_ptr(made)] {
    if (const auto scheduler = weak.lock()) scheduler->close();
  });
  return made;
}

Scheduler::Scheduler(Group messages, Group data)
    : messages_(std::move(messages)),
      data_(std::move(data)),
      self_{data_.rank(), data_.size()},
      carriers_(GroupAccess::carriers(messages_)),
      baton_(*carriers_.info->bell),
      waiter_(carriers_.wait_policy, *carriers_.info->bell),
      links_(carriers_.links, Agenda(self_.rank, carriers_.info->members).neighbours(), carriers_.info->members),
      agenda_(self_.rank, carriers_.info->members, [this](const Description& its) { return suits_list(its, queue()); }),
      stall_({.ping = GroupAccess::settings(data_).silence_limit / 2}),
      late_(self_.rank, GroupAccess::settings(data_), carriers_.control) {}

// A child that fork() made does not have the carrier's threads, but the carrier's destructor would wait for them.
Scheduler::~Scheduler() {
  if (queue().caller().in_child()) (void)carrier_.release();
  close();
}

void Scheduler::use(std::unique_ptr<DeviceCarrier> carrier) {
  const Lock lock(mutex_);
  if (carrier_) throw Error(ErrorCode::invalid_argument, "the agenda was given its GPUs before");
  carrier_ = std::move(carrier);
}

// Call without the lock, because the first call loads the plugin and initializes the device, which takes long.
std::shared_ptr<DeviceOperation> Scheduler::make_on_device(const NamedCall& request) {
  if (!request.on_gpu) return nullptr;
  Lock lock(mutex_);
  DeviceCarrier* const carrier = carrier_.get();  // is never replaced once it is set
  lock.unlock();
  if (!carrier)
    group::refuse(agenda::name(request.verb),
                  "a tensor is in GPU memory, but the agenda was given no GPUs: call anello_agenda_use_gpus first");
  if (request.verb != Verb::join) return carrier->make(request);
  carrier->choose(request.on_gpu->device);
  return nullptr;
}

// Every step that can fail on this rank alone comes before the report of the operation. If such a step fails, this rank
// reports the failure instead of the operation.
Scheduler::Handle Scheduler::submit(NamedCall request, bool waits) {
  queue().caller().check_process();
  const std::string_view name = request.name;
  const Verb verb = request.verb;
  std::pair<Description, Sizes> mine;
  Handle operation;
  try {
    carriers_.progress_thread->start();
    mine = agenda::describe(request, self_.size);
    std::shared_ptr<DeviceOperation> on_device = make_on_device(request);
    operation = std::make_shared<NamedOperation>(std::move(request), std::move(on_device), self_);
  } catch (const std::exception& e) {
    refuse(name, verb, e.what());
    throw;
  }
  Access lock(*this);
  if (world_has_failed(lock)) throw Error(*failure_);
  agenda_.hold(self_.rank == 0 && !queue().idle());
  enlist(lock, name, mine, operation);
  or_end_world(lock, [&]() ANELLO_REQUIRES(mutex_) {
    carry_out_decisions();
    if (!waits) say_more();
  });
  return operation;
}

// Reports that this rank refused the call. Without the report, the other ranks would wait for this rank's call.
void Scheduler::refuse(std::string_view name, Verb verb, const std::string& why) {
  if (queue().caller().in_child()) return;
  Access lock(*this);
  if (verb == Verb::join || world_has_failed(lock)) return;
  or_end_world(lock, [&]() ANELLO_REQUIRES(mutex_) {
    agenda_.refuse(name, verb, why);
    carry_out_decisions();
    say_more();
  });
}

// Makes another thread send the queued messages, because this thread will not wait.
void Scheduler::say_more() {
  offer_started();
  if (sleeps_)
    carriers_.info->bell->ring();  // wakes the sleeping thread, because there is more to send
  else
    offer();
}

// If this function throws, the operation does not use the program's tensors.
void Scheduler::enlist(Lock& lock, std::string_view name, const std::pair<Description, Sizes>& mine,
                       const Handle& operation) {
  try {
    callbacks_.reserve(callbacks_.size() + undecided_.size() + 1);  // so that settle() cannot fail
    std::string key(Agenda::kJoin);
    if (operation->verb() == Verb::join)
      agenda_.join();
    else
      key = agenda_.submit(name, mine.first, mine.second);
    operation->set_key(key);
    undecided_[key] = operation;
  } catch (const std::exception& e) {
    const auto* const error = dynamic_cast<const Error*>(&e);
    // If the agenda has refused the call, it has changed nothing.
    const bool is_refused = error && error->code() == ErrorCode::invalid_argument;
    if (!is_refused) fail(lock, e);
    throw;
  }
}

bool Scheduler::has_work() const {
  return !failure_ && (agenda_.waits() || agenda_.has_to_say() || links_.sending());
}

// Call with the baton. Moves the messages that can be moved at once; true if anything moved.
bool Scheduler::move(Lock& lock) {
  if (world_has_failed(lock)) return false;
  bool moved = true;
  or_end_world(lock, [&]() ANELLO_REQUIRES(mutex_) {
    // Receives only while an operation waits. At other times a neighbour may have left in good order, and receiving
    // from it would fail.
    agenda_.hold(self_.rank == 0 && !queue().idle());
    moved = agenda_.waits() && links_.receive(agenda_);
    moved |= links_.send(agenda_);
    carry_out_decisions();
    moved |= links_.send(agenda_);
    if (moved) stall_.moved();
  });
  return moved;
}

void Scheduler::settle(NamedOperation& operation) {
  if (auto callback = operation.settle()) callbacks_.push_back(std::move(callback));
  if (operation.abandoned) free_name(operation);
  baton_.announce();
}

void Scheduler::call_back(Lock& lock) {
  while (!callbacks_.empty()) {
    auto callback = std::move(callbacks_.front());
    callbacks_.erase(callbacks_.begin());
    const MutexUnlock unlocked(lock, mutex_);
    callback();
    callback = nullptr;  // destroyed without the lock, because it may own the last handle of an object
  }
}

void Scheduler::when_done(const Handle& operation, std::function<void(const Error*)> callback) {
  queue().caller().check_process();
  const auto call = [weak = weak_from_this(), operation, callback = std::move(callback)] {
    if (const auto scheduler = weak.lock()) {
      const Lock lock(scheduler->mutex_);
      scheduler->free_name(*operation);
    }
    const auto error = operation->error();
    group::CallerChecks::call_back([&] { callback(error ? &*error : nullptr); });
  };
  if (!operation->when_done(call)) call();
}

bool Scheduler::wait(NamedOperation& operation, group::Until until) {
  queue().caller().check_may_wait();
  {
    Access lock(*this);
    if (!operation.decided) wait_for_decision(lock, operation, until);
    if (has_work() && baton_.try_acquire()) {  // the decision may still have to be sent to other ranks
      move(lock);
      baton_.release();
    } else if (has_work() && sleeps_) {
      carriers_.info->bell->ring();  // wakes the sleeping thread, because there is more to send
    }
    or_end_world(lock, [&]() ANELLO_REQUIRES(mutex_) {
      if (!operation.decided || !operation.moves_data()) offer_started();
      offer();
    });
    if (!operation.decided) return false;
    started_ = false;  // a thread that waits for data offers the remaining work itself
  }
  if (!operation.wait(until)) return false;
  const Lock lock(mutex_);
  free_name(operation);
  return true;
}

void Scheduler::wait_for_decision(Lock& lock, const NamedOperation& operation, group::Until until) {
  const auto move_some = [&]() ANELLO_REQUIRES(mutex_) {
    const bool moved = move(lock);
    if (moved && !operation.decided) or_end_world(lock, [this]() ANELLO_REQUIRES(mutex_) { offer_started(); });
    return moved || operation.decided;
  };
  const auto pause = [&]() ANELLO_REQUIRES(mutex_) {
    const MutexUnlock unlocked(lock, mutex_);
    return waiter_.pause();
  };
  const auto rest = [&]() ANELLO_REQUIRES(mutex_) { return operation.decided || sleep(lock, until); };
  const auto move_or_rest = [&]() ANELLO_REQUIRES(mutex_) {
    if (!callbacks_.empty()) return false;
    group::move_or_sleep(waiter_, move_some, pause, rest);
    return true;
  };
  group::drive(baton_, lock, operation.decided, until, move_or_rest, [&]() ANELLO_REQUIRES(mutex_) {
    baton_.release();
    call_back(lock);  // called without the baton, because a callback may end the agenda
  });
}

// Returns false at once if another thread has submitted an operation since this thread last moved messages, because the
// other thread relies on this thread to send the message about its operation.
bool Scheduler::sleep(Lock& lock, group::Until until) {
  bool slept = false;
  or_end_world(lock, [&]() ANELLO_REQUIRES(mutex_) {
    const bool failed = carriers_.control && carriers_.control->failed();
    if (failed || agenda_.has_to_say() || !links_.want(waiter_, agenda_.waits())) return;
    const milliseconds limit = group::no_longer_than(until, note_stuck());
    sleeps_ = slept = true;
    const MutexUnlock unlocked(lock, mutex_);
    waiter_.sleep(limit);
  });
  sleeps_ = false;
  return slept;
}

// Call when nothing moves while something waits. The control plane reports a neighbour that has left in good order only
// if this function asks, and the answer is about the present only. So this function must ask again and again. Returns
// how long the thread may sleep before the next check.
milliseconds Scheduler::note_stuck() {
  const group::StallClock::Due due = stall_.look();
  if (!carriers_.control) return due.sleep;
  late_.look(undecided_, due.stuck, agenda_);
  if (due.stuck < group::StallClock::kQuestionAfter) return due.sleep;
  const std::string here = undecided_.empty() ? "passes messages on" : "waits in " + undecided_.begin()->first;
  carriers_.control->needs_messages(carriers_.info->id, decided_, here);
  if (due.pings)
    for (const int neighbour : agenda_.neighbours()) carriers_.control->ping(world_rank(neighbour));
  return due.sleep;
}

bool Scheduler::done(NamedOperation& operation) {
  if (queue().caller().in_child()) return false;
  const bool is_done = operation.done();
  Access lock(*this);
  if (is_done) free_name(operation);
  // submit() with `waits` has not offered its work, so it is offered now.
  or_end_world(lock, [this]() ANELLO_REQUIRES(mutex_) {
    offer_started();
    offer();  // called even if the operation is done, because its decision may still have to be sent to other ranks
  });
  return is_done;
}

void Scheduler::abandon(NamedOperation& operation) {
  if (queue().caller().in_child()) return;
  Access lock(*this);
  operation.abandoned = true;
  if (operation.decided) free_name(operation);
  or_end_world(lock, [this]() ANELLO_REQUIRES(mutex_) {
    offer_started();
    offer();
  });
}

// Frees the name only once, because a later operation may have the same name.
void Scheduler::free_name(NamedOperation& operation) {
  if (!std::exchange(operation.name_is_free, true)) agenda_.release(operation.key());
}

std::string Scheduler::describe(const NamedOperation& operation) {
  queue().caller().check_process();
  const Lock lock(mutex_);
  if (!operation.decided) return agenda_.waits_for(operation.key());
  return operation.key();
}

group::Movable::Progress Scheduler::progress() {
  Access lock(*this);
  if (!has_work() || !baton_.try_acquire()) return Progress::none;
  const bool moved = move(lock);
  or_end_world(lock, [this]() ANELLO_REQUIRES(mutex_) { offer_started(); });
  baton_.release();
  if (!has_work()) return Progress::none;
  return moved ? Progress::moved : Progress::stuck;
}

bool Scheduler::prepare_sleep(link::Waiter& waiter, milliseconds& limit) {
  Access lock(*this);
  if (!has_work() || (carriers_.control && carriers_.control->failed()) || !baton_.try_acquire()) return false;
  or_end_world(lock, [&]() ANELLO_REQUIRES(mutex_) {
    if (!links_.want(waiter, agenda_.waits())) return;
    waiter.want(*carriers_.info->bell);
    limit = std::min(limit, note_stuck());
    sleeps_ = true;
  });
  if (!sleeps_) baton_.release();
  return sleeps_;
}

void Scheduler::slept(trace::Ticks) {
  const Lock lock(mutex_);
  sleeps_ = false;
  baton_.release();
}

void Scheduler::offer() {
  if (sleeps_ && agenda_.has_to_say()) carriers_.info->bell->ring();
  if (has_work() && !baton_.held() && !baton_.wanted() && baton_.closed() == 0)
    carriers_.progress_thread->offer(shared_from_this());
}

void Scheduler::offer_started() {
  if (std::exchange(started_, false)) queue().offer_work();
}

}  // namespace anello::agenda
