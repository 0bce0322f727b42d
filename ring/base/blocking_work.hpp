// Work that may block for as long as it likes, such as a write to a pipe that is not read or to a file system that
// hangs. A thread of its own does it in order; the thread is there only while there is work. No thread waits for the
// work without a limit, so each task owns what it uses. Never destroy it. Any thread. In a child process after fork()
// there are no tasks, and a task that is added is done at once by its caller.
#pragma once
#include <chrono>
#include <cstddef>
#include <functional>

namespace anello {

class BlockingWork {
 public:
  using Task = std::function<void()>;  // does not throw

  BlockingWork();
  BlockingWork(const BlockingWork&) = delete;
  BlockingWork& operator=(const BlockingWork&) = delete;

  void add(Task task);
  std::size_t size() const;  // tasks that are not done
  // Waits until every task that was added before is done; for at most `limit`.
  void wait(std::chrono::milliseconds limit) const;

 private:
  struct State;
  bool is_of_parent() const;  // its thread and, perhaps, a lock of its mutex are not here

  State* state_;
};

}  // namespace anello
