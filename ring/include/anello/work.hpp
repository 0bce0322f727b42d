// A handle of an operation that was started and runs in the background. Copies refer to the same operation. Any thread.
//
// The last handle may be destroyed at any time; the operation goes on, and needs its tensors until it is done. A handle
// may outlive its world: when the world ends, its operations are done or have failed.
#pragma once
#include <anello/export.h>
#include <anello/error.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>

namespace anello::group {
struct AsyncOperation;
}

ANELLO_API_BEGIN
namespace anello {

class Work {
 public:
  Work() = default;  // refers to no operation; done() is true

  // Blocks until the operation is done. While it waits, the calling thread moves the operation's data itself. Throws
  // the operation's error, like the blocking call. Throws Error{invalid_argument} in a callback of when_done().
  void wait() const;
  // Blocks until the operation is done, but at most for `limit`; returns false if it is not done by then. Throws like
  // wait(). Unlike wait() it moves no data: the rank's progress thread does this, which costs thread switches. When
  // nothing else is left to do, call wait(), which is faster. Do not call wait_for() in a loop.
  [[nodiscard]] bool wait_for(std::chrono::milliseconds limit) const;

  [[nodiscard]] bool done() const;                   // true if the operation is complete or has failed; does not block
  [[nodiscard]] std::optional<Error> error() const;  // the error, if the operation has failed; does not block

  // Registers `callback`, which is called once, when the operation is done, with a pointer to its error, or null. If
  // the operation is already done, this thread calls `callback` at once; otherwise the thread that moves the last byte
  // calls it. A callback may start operations, and destroy the last handle of its group. It must not block (all
  // asynchronous operations of the rank would wait), throw, or destroy its World. A second call of when_done replaces a
  // callback that has not run.
  void when_done(std::function<void(const Error*)> callback);

 private:
  friend class Group;
  friend class GroupAccess;  // for the engine's own rooms
  explicit Work(std::shared_ptr<group::AsyncOperation> pending);
  std::shared_ptr<group::AsyncOperation> operation_;
};

// Blocks until all of the operations are done, as if wait() were called on each. Then throws the error of the first
// failed operation, in list order. So no tensor is in use when it returns or throws (except in a callback: see wait()).
void wait_all(std::span<const Work> works);

}  // namespace anello
ANELLO_API_END
