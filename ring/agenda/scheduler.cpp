#include "ring/agenda/scheduler.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "ring/base/log.hpp"
#include "ring/base/text.hpp"

namespace anello::agenda {

using group::has_passed;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

constexpr std::string_view kJoin = "join";  // not a key of another operation: those have a name or a number

}  // namespace

std::shared_ptr<Scheduler> Scheduler::make(const Group& group) {
  std::vector<int> all(std::size_t(group.size()));
  std::iota(all.begin(), all.end(), 0);
  const std::vector<int> members(group.members().begin(), group.members().end());
  std::shared_ptr<Scheduler> made(new Scheduler(group.group(all), group.group(all), members));
  GroupAccess::when_leaving(made->messages_, [weak = std::weak_ptr(made)] {
    if (const auto scheduler = weak.lock()) scheduler->close();
  });
  return made;
}

Scheduler::Scheduler(Group messages, Group data, std::vector<int> members)
    : messages_(std::move(messages)),
      data_(std::move(data)),
      self_{data_.rank(), data_.size()},
      members_(std::move(members)),
      carriers_(GroupAccess::carriers(messages_)),
      report_after_(GroupAccess::settings(data_).stall_time),
      silence_limit_(GroupAccess::settings(data_).silence_limit),
      operation_limit_(GroupAccess::settings(data_).operation_limit),
      baton_(*carriers_.info->bell),
      waiter_(carriers_.wait_policy, *carriers_.info->bell),
      links_(carriers_.links, Agenda(self_.rank, members_).neighbours(), members_),
      agenda_(self_.rank, members_),
      next_report_(report_after_) {}

// A child that fork() made has none of the carrier's threads, for which its end would wait.
Scheduler::~Scheduler() {
  if (in_child()) (void)carrier_.release();
  close();
}

void Scheduler::use(std::unique_ptr<DeviceCarrier> carrier) {
  const Lock lock(mutex_);
  if (carrier_) throw Error(ErrorCode::invalid_argument, "the agenda was given its GPUs before");
  carrier_ = std::move(carrier);
}

// Before the lock is taken: the first call loads the plugin, and makes the device ready.
std::shared_ptr<DeviceOperation> Scheduler::make_on_device(const Request& request) {
  if (!request.on_gpu) return nullptr;
  if (!carrier_)
    group::refuse(agenda::name(request.verb),
                  "a tensor is in GPU memory, but the agenda was given no GPUs: call anello_agenda_use_gpus first");
  if (request.verb != Verb::join) return carrier_->make(request);
  carrier_->choose(request.on_gpu->device);
  return nullptr;
}

Scheduler::Handle Scheduler::submit(Request request, bool waits) {
  queue().check_process();
  carriers_.progress_thread->start();
  const std::pair<Description, Sizes> mine = agenda::describe(request, self_.size);
  std::shared_ptr<DeviceOperation> on_device = make_on_device(request);
  Lock lock(mutex_);
  if (world_has_failed(lock)) throw Error(*failure_);
  Handle operation = enlist(lock, std::move(request), mine, std::move(on_device));
  carry_out_decisions();
  if (waits) return operation;
  offer_started();
  if (sleeps_)
    carriers_.info->bell->ring();  // the thread that sleeps has more to send
  else
    offer();
  return operation;
}

Scheduler::Handle Scheduler::enlist(Lock&, Request request, const std::pair<Description, Sizes>& mine,
                                    std::shared_ptr<DeviceOperation> on_device) {
  std::string key(kJoin);
  if (request.verb == Verb::join)
    agenda_.join();
  else
    key = agenda_.submit(request.name, mine.first, mine.second);
  auto operation = std::make_shared<NamedOperation>(std::move(request), key, std::move(on_device));
  undecided_[key] = operation;
  return operation;
}

bool Scheduler::has_work() const {
  return !failure_ && (agenda_.waits() || agenda_.has_to_say() || links_.sending());
}

// By the thread with the baton. Moves what can be moved at once; true if that was something.
bool Scheduler::move(Lock& lock) {
  if (world_has_failed(lock)) return false;
  try {
    // Once nothing waits, a neighbour may have left in good order.
    bool moved = agenda_.waits() && receive();
    moved |= send();
    carry_out_decisions();
    moved |= send();
    if (moved) stuck_since_.reset();
    return moved;
  } catch (const Error& e) {
    fail(lock, e);
    return true;
  }
}

bool Scheduler::receive() {
  bool moved = false;
  std::vector<std::string> messages;
  for (const int neighbour : agenda_.neighbours()) {
    moved |= links_.receive_some(neighbour, messages);
    for (const std::string& message : messages) agenda_.receive(neighbour, message);
    messages.clear();
  }
  return moved;
}

bool Scheduler::send() {
  if (agenda_.has_to_say())
    for (const int neighbour : agenda_.neighbours())
      if (std::string message = agenda_.say(neighbour); !message.empty()) links_.send(neighbour, std::move(message));
  return links_.send_some();
}

void Scheduler::carry_out_decisions() {
  for (const Decision& decision : agenda_.decide()) carry_out(decision);
}

void Scheduler::carry_out(const Decision& decision) {
  const bool is_join = !decision.agreed && !decision.refusal;
  const auto found = undecided_.find(is_join ? kJoin : std::string_view(decision.key));
  Handle operation;
  if (found != undecided_.end()) {
    operation = std::move(found->second);
    undecided_.erase(found);
  }
  if (is_join) {
    operation->set_last(decision.last);
  } else if (decision.refusal) {
    if (!operation) return;
    const int culprit = decision.refusal->culprit;
    operation->fail({ErrorCode::mismatch, text(decision.key, ": ", decision.refusal->why),
                     culprit < 0 ? -1 : members_[std::size_t(culprit)]});
  } else {
    if (!operation) operation = std::make_shared<NamedOperation>(decision.agreed->description, decision.key);
    begin(*operation, *decision.agreed);
  }
  settle(*operation);
}

// All ranks begin the same operations in the same order. One that cannot must not leave the others waiting.
void Scheduler::begin(NamedOperation& operation, const Agreed& agreed) {
  try {
    operation.prepare(agreed, self_, carrier_.get());
  } catch (const std::exception& e) {
    const std::string why = text(operation.key(), " cannot begin: ", e.what());
    data_.abort(why);
    return operation.fail({ErrorCode::aborted, why, members_[std::size_t(self_.rank)]});
  }
  try {
    operation.start(agreed, queue(), self_);
    started_ |= operation.moves_data();
  } catch (const Error& e) {
    operation.fail(e);
  }
}

void Scheduler::settle(NamedOperation& operation) {
  operation.decided.store(true, std::memory_order_release);
  if (operation.abandoned) free_name(operation);
  baton_.announce();
}

// True once it is known here. Then everything that was not decided has failed.
bool Scheduler::world_has_failed(Lock& lock) {
  if (failure_) return true;
  if (!carriers_.control || !carriers_.control->failed()) return false;
  lock.unlock();
  const Error why = carriers_.control->error();
  lock.lock();
  end_all(why);
  return true;
}

// All ranks get the same error, whichever found it first.
void Scheduler::fail(Lock& lock, const Error& cause) {
  if (cause.code() == ErrorCode::network && cause.rank() >= 0)
    carriers_.control->suspect(cause.rank(), carriers_.info->id, cause.message());
  else
    carriers_.control->propose({cause.code(), cause.rank(), text("rank ", cause.rank(), ": ", cause.message())});
  lock.unlock();
  const Error why = carriers_.control->error();
  lock.lock();
  end_all(why);
}

void Scheduler::end_all(const Error& why) {
  if (!failure_) failure_ = why;
  for (const auto& [key, operation] : std::exchange(undecided_, {})) {
    operation->fail(Error(*failure_).within(key));
    settle(*operation);
  }
}

bool Scheduler::wait(NamedOperation& operation, group::Until until) {
  queue().check_process();
  {
    Lock lock(mutex_);
    if (!operation.decided) wait_for_decision(lock, operation, until);
    if (has_work() && baton_.try_acquire()) {  // the decision may still have to be sent to others
      move(lock);
      baton_.release();
    } else if (has_work() && sleeps_) {
      carriers_.info->bell->ring();  // the thread that sleeps has more to send
    }
    if (!operation.decided || !operation.moves_data()) offer_started();
    offer();
    if (!operation.decided) return false;
    started_ = false;  // waiting for data offers what is left
  }
  if (!operation.wait(until)) return false;
  const Lock lock(mutex_);
  free_name(operation);
  return true;
}

void Scheduler::wait_for_decision(Lock& lock, const NamedOperation& operation, group::Until until) {
  while (baton_.acquire(lock, operation.decided, until)) {
    while (!operation.decided && baton_.closed() == 0 && !has_passed(until)) {
      if (move(lock)) {
        waiter_.moved();
        if (!operation.decided) offer_started();
        continue;
      }
      if (operation.decided) break;
      lock.unlock();
      const bool tired = waiter_.pause();
      lock.lock();
      if (tired && !operation.decided) sleep(lock, until);
    }
    baton_.release();
    if (has_passed(until)) break;
  }
}

void Scheduler::sleep(Lock& lock, group::Until until) {
  waiter_.forget();
  if ((carriers_.control && carriers_.control->failed()) || !links_.want(waiter_)) return waiter_.moved();
  milliseconds limit = note_stuck();
  if (until) limit = std::clamp(std::chrono::ceil<milliseconds>(*until - steady_clock::now()), milliseconds(0), limit);
  sleeps_ = true;
  lock.unlock();
  waiter_.sleep(limit);
  lock.lock();
  sleeps_ = false;
}

bool Scheduler::done(NamedOperation& operation) {
  if (in_child()) return false;
  if (!operation.done()) {
    const Lock lock(mutex_);
    offer_started();  // it was submitted to be waited for
    offer();
    return false;
  }
  const Lock lock(mutex_);
  free_name(operation);
  return true;
}

void Scheduler::abandon(NamedOperation& operation) {
  if (in_child()) return;
  const Lock lock(mutex_);
  operation.abandoned = true;
  if (operation.decided) free_name(operation);
  offer_started();
  offer();
}

// Once: a later operation may have the same name.
void Scheduler::free_name(NamedOperation& operation) {
  if (!std::exchange(operation.name_is_free, true)) agenda_.release(operation.key());
}

std::string Scheduler::describe(const NamedOperation& operation) {
  const Lock lock(mutex_);
  if (!operation.decided)
    return operation.verb() == Verb::join ? "join waits for other ranks" : agenda_.waits_for(operation.key());
  return operation.key();
}

group::Movable::Progress Scheduler::progress() {
  Lock lock(mutex_);
  if (!has_work() || !baton_.try_acquire()) return Progress::none;
  const bool moved = move(lock);
  offer_started();
  baton_.release();
  if (!has_work()) return Progress::none;
  return moved ? Progress::moved : Progress::stuck;
}

bool Scheduler::prepare_sleep(link::Waiter& waiter, milliseconds& limit) {
  Lock lock(mutex_);
  if (!has_work() || (carriers_.control && carriers_.control->failed()) || !baton_.try_acquire()) return false;
  if (!links_.want(waiter)) {
    baton_.release();
    return false;
  }
  waiter.want(*carriers_.info->bell);
  limit = std::min(limit, note_stuck());
  return sleeps_ = true;
}

void Scheduler::slept(trace::Ticks) {
  const Lock lock(mutex_);
  sleeps_ = false;
  baton_.release();
}

void Scheduler::offer() {
  if (has_work() && !baton_.held() && !baton_.wanted() && !closing_)
    carriers_.progress_thread->offer(shared_from_this());
}

void Scheduler::offer_started() {
  if (std::exchange(started_, false)) queue().offer_work();
}

void Scheduler::close() {
  if (in_child()) return;
  Lock lock(mutex_);
  if (std::exchange(closing_, true)) return;
  baton_.close();
  baton_.wait_until_free(lock);
  if (!world_has_failed(lock)) flush(lock);
  end_all({ErrorCode::aborted, "the agenda, or this rank's world, has ended"});
  if (carrier_) {
    lock.unlock();
    carrier_->close();
    lock.lock();
  }
  baton_.wait_until_unused(lock);
}

// What rank 0 has decided must reach the ranks beyond this one. What this rank has reported does not matter any more.
void Scheduler::flush(Lock& lock) {
  const auto end = steady_clock::now() + silence_limit_;
  if (self_.rank > 0) links_.drop(agenda_.neighbours().back());
  try {
    while (links_.sending() && steady_clock::now() < end && !world_has_failed(lock))
      if (!links_.send_some() && links_.want(waiter_)) waiter_.sleep(kDiagnosisAfter);
  } catch (const Error& e) {
    fail(lock, e);
  }
}

}  // namespace anello::agenda
