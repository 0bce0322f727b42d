#include "ring/base/blocking_work.hpp"

#include <unistd.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <utility>

#include "ring/base/mutex.hpp"
#include "ring/base/thread.hpp"

namespace anello {

// Never destroyed, because the thread may still be blocked when the process ends.
struct BlockingWork::State {
  // Runs tasks until none is left.
  void run() {
    MutexLock lock(mutex);
    while (!tasks.empty()) {
      const Task task = std::move(tasks.front());
      tasks.pop_front();
      lock.unlock();
      task();
      lock.lock();
      done++;
      changed.notify_all();
    }
    running = false;
  }

  const pid_t process = getpid();
  Mutex mutex;
  std::condition_variable changed;
  std::deque<Task> tasks ANELLO_GUARDED_BY(mutex);
  std::uint64_t added ANELLO_GUARDED_BY(mutex) = 0, done ANELLO_GUARDED_BY(mutex) = 0;
  bool running ANELLO_GUARDED_BY(mutex) = false;
};

BlockingWork::BlockingWork() : state_(new State) {}

bool BlockingWork::is_of_parent() const {
  return state_->process != getpid();
}

void BlockingWork::add(Task task) {
  if (is_of_parent()) return task();
  State& all = *state_;
  MutexLock lock(all.mutex);
  all.tasks.push_back(std::move(task));
  all.added++;
  if (std::exchange(all.running, true)) return;
  try {
    quiet_thread("work that may block", [&all] { all.run(); }).detach();
  } catch (const Error&) {  // no thread can be started, so this thread runs the tasks
    lock.unlock();
    all.run();
  }
}

std::size_t BlockingWork::size() const {
  if (is_of_parent()) return 0;
  State& all = *state_;
  const MutexLock lock(all.mutex);
  return std::size_t(all.added - all.done);
}

void BlockingWork::wait(std::chrono::milliseconds limit) const {
  if (is_of_parent()) return;
  State& all = *state_;
  MutexLock lock(all.mutex);
  all.changed.wait_for(lock, limit, [&all, last = all.added]() ANELLO_REQUIRES(all.mutex) { return all.done >= last; });
}

}  // namespace anello
