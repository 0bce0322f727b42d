// A handle of an operation that was started and goes on by itself. Copies stand for the same operation. To destroy the
// last one is safe at any time: the operation goes on all the same, and needs its tensors until it is done; so does a
// handle that outlives its world, whose operations are done, or have failed, when it ends. Any thread.
#pragma once
#include <anello/export.h>
#include <anello/error.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>

ANELLO_API_BEGIN
namespace anello {

struct AsyncOperation;

class Work {
 public:
  Work() = default;  // of nothing, which is done

  // Blocks until it is done; the caller moves its bytes meanwhile. Throws what the blocking call would have thrown.
  void wait();
  // The same, no longer than `limit`: false if it is not done by then. Only waits, and moves nothing.
  bool wait_for(std::chrono::milliseconds limit);

  bool done() const;                   // or failed; never blocks
  std::optional<Error> error() const;  // why, if it has failed

  // Calls `callback` once when it is done, with the error or null; at once if it is done already. Otherwise it is
  // called by the thread that moves the last byte; it may start further work, but neither block nor throw, nor hold the
  // last handle of its group. One callback: a later one takes the place of an earlier one that has not been called.
  void when_done(std::function<void(const Error*)> callback);

 private:
  friend class Group;
  explicit Work(std::shared_ptr<AsyncOperation> pending);
  std::shared_ptr<AsyncOperation> operation_;
};

}  // namespace anello
ANELLO_API_END
