// Runs tasks that may block for any time, such as a write to a pipe that is not read or to a file system that hangs.
// Runs the tasks in order on a separate thread, which exists only while there are tasks. Callers wait for a task only
// until a limit, so each task must own the data that it uses. Never destroy this object. Any thread. After fork(), the
// child's object has no tasks, and runs a new task at once on the thread that adds the task.
#pragma once
#include <chrono>
#include <cstddef>
#include <functional>

namespace anello {

class BlockingWork {
 public:
  using Task = std::function<void()>;  // must not throw

  BlockingWork();
  BlockingWork(const BlockingWork&) = delete;
  BlockingWork& operator=(const BlockingWork&) = delete;

  void add(Task task);
  std::size_t size() const;  // tasks that are not done
  // Blocks until every task that was added before is done, for at most `limit`.
  void wait(std::chrono::milliseconds limit) const;

 private:
  struct State;
  // True in a child that fork() made. The thread of this object exists only in the parent, and may have locked the
  // mutex there.
  bool is_of_parent() const;

  State* state_;
};

}  // namespace anello
