// Moves the asynchronous operations of all groups of a rank, transfers included, on one thread. The thread starts with
// the first asynchronous operation. Queues offer their work to it. The thread has a queue's baton while it moves the
// queue's data, and while it sleeps. It sleeps only when no operation can move, and a caller that wants the baton wakes
// it. Callbacks run on this thread. Agendas of named operations are moved like queues. Functions may be called on any
// thread. Owned by the world and by its queues; does not depend on links and the control plane.
#pragma once
#include <memory>
#include <thread>
#include <vector>

#include "ring/base/mutex.hpp"
#include "ring/link/bell.hpp"
#include "ring/link/waiter.hpp"
#include "ring/trace/ticks.hpp"

namespace anello::group {

// Something that the progress thread advances, such as a queue of operations. Only that thread calls these functions.
class Movable {
 public:
  virtual ~Movable() = default;
  // Moves the data that can be moved at once. Does not block, except while it runs the callback of an operation that is
  // done. `none`: there is no work, or a caller has or wants the baton. In the second case that caller offers the
  // remaining work later.
  enum class Progress { none, moved, stuck };
  virtual Progress progress() = 0;
  // Acquires the baton, adds to the waiter the events for which the work waits, and shortens `limit`. Returns false if
  // another thread has the baton, or if something can move already.
  virtual bool prepare_sleep(link::Waiter& waiter, std::chrono::milliseconds& limit) = 0;
  // Call after prepare_sleep() returned true. Releases the baton.
  virtual void slept(trace::Ticks from) = 0;

 private:
  friend class ProgressThread;
  std::shared_ptr<Movable> next_offered_;  // guarded by the progress thread's mutex
  bool offered_ = false;
};

class ProgressThread {
 public:
  explicit ProgressThread(link::WaitPolicy policy, link::Core core = {});
  ~ProgressThread() { stop(); }
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  // Throws Error{network} if no thread can be started. Does nothing if the thread already runs, or after stop().
  void start();
  // Call when the queue has an operation and no thread has the queue's baton. Does not block, and allocates nothing.
  void offer(std::shared_ptr<Movable> queue) noexcept;
  // Blocks until the thread has ended. All queues must be closed. Must not be called in a callback.
  void stop();

 private:
  void run();
  bool take_offered();
  bool move();
  void sleep();
  bool may_sleep();

  link::Bell bell_;
  link::Waiter waiter_;                           // used by the progress thread only
  std::vector<std::shared_ptr<Movable>> active_;  // queues that have work; used by the progress thread only

  Mutex mutex_;
  std::shared_ptr<Movable> first_offered_ ANELLO_GUARDED_BY(mutex_);  // head of a list linked by next_offered_
  Movable* last_offered_ ANELLO_GUARDED_BY(mutex_) = nullptr;
  bool sleeps_ ANELLO_GUARDED_BY(mutex_) = false, stopped_ ANELLO_GUARDED_BY(mutex_) = false;
  std::thread thread_ ANELLO_GUARDED_BY(mutex_);
};

}  // namespace anello::group
