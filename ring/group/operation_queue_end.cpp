// How a queue ends: an operation or the world has failed, the last handle of its group is gone, or the world or the
// group is closed.
#include <new>
#include <utility>

#include "ring/base/text.hpp"
#include "ring/group/operation_queue.hpp"

namespace anello::group {

Error out_of_memory(int world_rank) {
  return {ErrorCode::aborted, "out of memory", world_rank};
}

Error ended(const char* what, int world_rank) {
  try {
    return {ErrorCode::aborted, what};
  } catch (const std::bad_alloc&) {
    return out_of_memory(world_rank);
  }
}

// An error without a rank has its cause in this process, for example too few descriptors.
Error OperationQueue::cause_of(const std::exception& thrown) const {
  const auto* const error = dynamic_cast<const Error*>(&thrown);
  if (error && (error->code() != ErrorCode::network || error->rank() >= 0)) return *error;
  return {ErrorCode::aborted, text("rank ", world_rank_, " cannot go on: ", thrown.what()), world_rank_};
}

// The error of the operation at the head of the queue also has this operation's progress. If memory runs out, the
// errors have less text. The queue is emptied in any case, because operations of blocking calls are on the stacks of
// their threads.
void OperationQueue::fail_all(Lock& lock, const std::exception& thrown) {
  std::string how_far;
  const auto find = [&] {
    how_far = ", " + runner_.how_far();
    return verdict(cause_of(thrown));
  };
  std::optional<Error> why;
  {
    const MutexUnlock unlocked(lock, mutex_);
    // Called before give_up(), so that peers get this reason first.
    why = or_out_of_memory(control_, world_rank_, find);
    runner_.give_up();
  }
  failure_ = std::move(why);
  for (; !pending_.empty(); how_far.clear()) {
    fail_head(how_far);
    complete(lock);
  }
}

void OperationQueue::fail_head(const std::string& how_far) {
  Operation& head = *pending_.head();
  try {
    head.error = Error(*failure_).within(describe(head, *group_) + how_far);
  } catch (const std::bad_alloc&) {
    head.error = out_of_memory(world_rank_);
  }
}

// Returns the verdict of the world. All ranks throw this same error, no matter which rank detected it first.
Error OperationQueue::verdict(const Error& cause) {
  if (!control_) return cause;
  if (cause.code() == ErrorCode::network && cause.rank() >= 0)
    control_->suspect(cause.rank(), group_->id, cause.message());
  const failure::Verdict verdict{cause.code(), cause.rank(), cause.message()};
  if (const auto& differing = runner_.differing(); cause.code() == ErrorCode::mismatch && differing) {
    if (differing->theirs == differing->mine)
      control_->contradicts(differing->mine, differing->peers, verdict);
    else
      control_->differs(differing->mine, differing->peers[0], differing->theirs, verdict);
  } else if (cause.code() == ErrorCode::mismatch || cause.code() == ErrorCode::protocol ||
             cause.code() == ErrorCode::diverged || cause.code() == ErrorCode::aborted) {
    control_->propose(verdict);
  }
  return control_->error();
}

bool OperationQueue::abandon() {
  const Lock lock(mutex_);
  abandoned_ = true;
  leave_if_abandoned();
  return left_;
}

bool OperationQueue::has_left() const {
  const Lock lock(mutex_);
  return left_;
}

void OperationQueue::end(Error why) {
  const Lock lock(mutex_);
  if (!failure_) failure_ = std::move(why);
}

void OperationQueue::close() {
  {
    const Lock lock(mutex_);
    baton_.close();
  }
  Lock lock(mutex_);
  baton_.wait_until_free(lock);
  if (!failure_) failure_ = ended("this rank's world, or the group, has ended", world_rank_);
  if (!pending_.empty()) runner_.give_up();
  while (!pending_.empty()) {
    fail_head("");
    complete(lock);
  }
  baton_.wait_until_unused(lock);
  pool_.clear();
}

}  // namespace anello::group
