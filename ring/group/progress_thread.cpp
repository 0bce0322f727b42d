#include "ring/group/progress_thread.hpp"

#include <algorithm>
#include <anello/error.hpp>
#include <new>
#include <utility>

#include "ring/base/text.hpp"
#include "ring/base/thread.hpp"

namespace anello::group {
namespace {

// A yield counts as long only if it takes at least 5 ms. This thread also yields its core to other threads of its own
// rank. These run for whole time slices of 3 to 4 ms, which is longer than other ranks run. Meanwhile this thread
// should yield and not sleep, because otherwise those threads would have to wake it for each operation.
link::WaitPolicy for_background(link::WaitPolicy policy) {
  policy.spin = std::chrono::microseconds(0);
  policy.long_yield = std::chrono::milliseconds(5);
  return policy;
}

}  // namespace

ProgressThread::ProgressThread(link::WaitPolicy policy, link::Core core)
    : waiter_(for_background(policy), bell_, core) {}

void ProgressThread::start() {
  const MutexLock lock(mutex_);
  if (stopped_ || thread_.joinable()) return;
  thread_ = quiet_thread("asynchronous work", [this] { run(); });
}

void ProgressThread::offer(std::shared_ptr<Movable> queue) noexcept {
  const MutexLock lock(mutex_);
  if (!std::exchange(queue->offered_, true)) {
    Movable* const last = std::exchange(last_offered_, queue.get());
    (last ? last->next_offered_ : first_offered_) = std::move(queue);
  }
  if (sleeps_) bell_.ring();
}

void ProgressThread::stop() {
  std::thread last;
  {
    const MutexLock lock(mutex_);
    stopped_ = true;
    bell_.ring();
    last = std::move(thread_);
  }
  if (last.joinable()) last.join();
}

void ProgressThread::run() {
  while (take_offered())
    if (!move()) sleep();
  active_.clear();
}

// Moves the offered queues to active_. Returns false if the thread must end. If active_ cannot grow, the remaining
// queues stay offered until the next round.
bool ProgressThread::take_offered() {
  const MutexLock lock(mutex_);
  sleeps_ = false;
  while (first_offered_) {
    try {
      if (std::ranges::find(active_, first_offered_) == active_.end()) active_.push_back(first_offered_);
    } catch (const std::bad_alloc&) {
      break;
    }
    const std::shared_ptr<Movable> taken = std::move(first_offered_);
    taken->offered_ = false;
    first_offered_ = std::move(taken->next_offered_);
  }
  if (!first_offered_) last_offered_ = nullptr;
  return !stopped_;
}

// Makes one round over all queues, and yields at most once in it. Returns false if no operation can move and the thread
// has yielded its core often enough. A queue without work, or whose baton a caller wants, is removed from active_ until
// the queue offers work again.
bool ProgressThread::move() {
  bool moved = false, stuck = false;
  for (auto& queue : active_) {
    const Movable::Progress progress = queue->progress();
    if (progress == Movable::Progress::none) queue = nullptr;
    moved |= progress == Movable::Progress::moved;
    stuck |= progress == Movable::Progress::stuck;
  }
  std::erase(active_, nullptr);
  const bool tired = !stuck || waiter_.pause();
  if (moved) waiter_.moved();
  return moved || !tired;
}

// Returns at once if an operation can move already, or if a caller has taken a queue's baton.
void ProgressThread::sleep() {
  std::chrono::milliseconds limit = std::chrono::hours(1);
  waiter_.forget();
  auto prepared = active_.begin();
  while (prepared != active_.end() && (*prepared)->prepare_sleep(waiter_, limit)) prepared++;
  const trace::Ticks from = trace::ticks();
  if (prepared == active_.end() && may_sleep()) waiter_.sleep(limit);
  for (auto queue = active_.begin(); queue != prepared; queue++) (*queue)->slept(from);
}

// Announces that the thread will sleep. If this returns true, offer() and stop() ring the bell from now on.
bool ProgressThread::may_sleep() {
  const MutexLock lock(mutex_);
  return sleeps_ = !first_offered_ && !stopped_;
}

}  // namespace anello::group
