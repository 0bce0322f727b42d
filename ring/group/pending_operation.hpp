// An operation between its submission and its end. Tickets of blocking calls lie on the caller's stack and borrow what
// the call borrows; those of asynchronous work (AsyncOperation) keep a copy of everything but the tensors.
#pragma once
#include <anello/error.hpp>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ring/group/operation.hpp"
#include "ring/plan/plan.hpp"
#include "ring/run/arithmetic.hpp"
#include "ring/trace/ticks.hpp"

namespace anello {

class OperationQueue;

struct AsyncOperation;

struct PendingOperation {
  const Operation* operation = nullptr;
  Signature signature;
  const Plan* plan = nullptr;
  Arithmetic arithmetic;
  Ticks queued = 0;
  std::optional<Error> error;
  std::atomic<bool> done = false;     // nothing changes any more
  PendingOperation* next = nullptr;   // in the queue
  AsyncOperation* lasting = nullptr;  // itself, if it is one
};

struct AsyncOperation : PendingOperation {
  explicit AsyncOperation(OperationQueue& its_owner) : owner(its_owner) { lasting = this; }

  // Copies the operation and what it borrows. Memory of an earlier use is used again.
  void keep(const Operation& asked);

  OperationQueue& owner;  // not to be touched once done
  std::function<void(const Error*)> when_done;
  std::shared_ptr<AsyncOperation> self;  // while it is in the queue

 private:
  Operation operation_;
  std::string name_;
  std::vector<std::uint64_t> counts_, received_, agreed_, sent_, arriving_;
  std::vector<Buffer::Piece> input_, output_;
};

}  // namespace anello
