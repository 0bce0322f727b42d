// How a scheduler ends: in good order, because this rank cannot go on, or because the world has failed.
#include <new>
#include <utility>

#include "ring/agenda/scheduler.hpp"
#include "ring/base/text.hpp"

namespace anello::agenda {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

// Returns the error that all ranks throw, no matter which rank detected it first. A cause without a rank is a fault of
// this process.
Error verdict(const group::Carriers& carriers, int own_rank, const std::exception& thrown) {
  const auto* const error = dynamic_cast<const Error*>(&thrown);
  const Error cause = error ? *error : Error(ErrorCode::aborted, text("cannot go on: ", thrown.what()));
  const int culprit = cause.rank() < 0 ? own_rank : cause.rank();
  const std::string why = text("rank ", culprit, ": ", cause.message());
  if (!carriers.control) return {cause.code(), why, culprit};
  if (cause.code() == ErrorCode::network && cause.rank() >= 0)
    carriers.control->suspect(cause.rank(), carriers.info->id, cause.message());
  else
    carriers.control->propose({cause.code(), culprit, why});
  return carriers.control->error();
}

}  // namespace

// True once this rank has received the failure of the world. Then all undecided operations have failed.
bool Scheduler::world_has_failed(Lock& lock) {
  if (failure_) return true;
  if (!carriers_.control || !carriers_.control->failed()) return false;
  Error why = group::out_of_memory(world_rank(self_.rank));
  try {
    const MutexUnlock unlocked(lock, mutex_);
    why = carriers_.control->error();
  } catch (const std::bad_alloc&) {
  }
  end_all(std::move(why));
  return true;
}

// If memory runs out, the errors have less text. But in any case no operation stays undecided, and no thread keeps the
// baton.
void Scheduler::fail(Lock& lock, const std::exception& thrown) {
  std::optional<Error> why;
  {
    const MutexUnlock unlocked(lock, mutex_);
    why = group::or_out_of_memory(carriers_.control, world_rank(self_.rank),
                                  [&] { return verdict(carriers_, world_rank(self_.rank), thrown); });
  }
  end_all(std::move(*why));
}

void Scheduler::end_all(Error why) {
  if (!failure_) failure_ = std::move(why);
  const Error& failure = *failure_;
  for (const auto& undecided : std::exchange(undecided_, {})) {
    const auto find = [&] { return Error(failure).within(undecided.first); };
    undecided.second->fail(group::or_out_of_memory(nullptr, world_rank(self_.rank), find));
    settle(*undecided.second);
  }
}

// Fails all undecided operations at once, so that nothing more is started on this rank.
void Scheduler::cannot_go_on(const std::string& key, const std::exception& why) {
  try {
    if (const std::optional<Error> failure = queue().failure()) return end_all(*failure);
    const std::string what = text(key, " cannot begin: ", why.what());
    data_.abort(what);
    end_all({ErrorCode::aborted, text("rank ", world_rank(self_.rank), ": ", what), world_rank(self_.rank)});
  } catch (const std::bad_alloc&) {
    if (carriers_.control) carriers_.control->abort_without_memory();
    end_all(group::out_of_memory(world_rank(self_.rank)));
  }
}

void Scheduler::close() {
  if (queue().caller().in_child()) return;
  Access lock(*this);
  if (baton_.closed() != 0) return;
  baton_.close();
  baton_.wait_until_free(lock);
  flush(lock);
  // This rank's goodbye contains the number of decisions that it has made. A rank that has made fewer decisions then
  // does not wait for decisions of this rank beyond that number.
  GroupAccess::carried_out(messages_, decided_);
  end_all(group::ended("the agenda was closed, or this rank's world ended, before the operation was done",
                       world_rank(self_.rank)));
  call_back(lock);
  if (DeviceCarrier* const carrier = carrier_.get()) {
    const MutexUnlock unlocked(lock, mutex_);
    carrier->close();
  }
  baton_.wait_until_unused(lock);
}

// First waits for decisions about this rank's refused calls, which count as submitted: if every rank has refused a call
// and then closes, the other ranks would still wait for the first rank that leaves. Then sends rank 0's remaining
// decisions to the ranks below this one, even if no byte of them was sent yet. This rank's own reports no longer
// matter. Other threads may use the scheduler at the same time, but none of them has the baton.
void Scheduler::flush(Lock& lock) {
  constexpr milliseconds kUsually{10'000}, kForRefusals{500}, kBetween{50};
  const auto begun = steady_clock::now();
  const auto rest = [&](milliseconds limit) ANELLO_REQUIRES(mutex_) {
    const MutexUnlock unlocked(lock, mutex_);
    waiter_.sleep(limit);
  };
  while (agenda_.waits() && undecided_.empty() && !world_has_failed(lock) &&
         steady_clock::now() < begun + kForRefusals) {
    waiter_.forget();
    if (!move(lock) && links_.want(waiter_, true)) rest(kBetween);
  }
  if (world_has_failed(lock)) return;
  const milliseconds limit = GroupAccess::settings(data_).silence_limit;
  const auto end = begun + (limit.count() > 0 ? limit : kUsually);
  or_end_world(lock, [&]() ANELLO_REQUIRES(mutex_) {
    links_.queue(agenda_);
    if (self_.rank > 0) links_.drop(agenda_.neighbours().back());
    while (links_.sending() && steady_clock::now() < end && !world_has_failed(lock)) {
      waiter_.forget();
      if (!links_.send_some() && links_.want(waiter_, false)) rest(group::StallClock::kQuestionAfter);
    }
  });
}

}  // namespace anello::agenda
