// A call that has been submitted and has a number. The operation of a blocking call is on the caller's stack, and
// borrows everything that the call borrows. An asynchronous operation has a copy of everything except the tensors.
// Guarded by the queue's mutex, except `done`: once `done` is true, no field changes any more.
#pragma once
#include <anello/error.hpp>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ring/group/planner.hpp"
#include "ring/link/group_info.hpp"
#include "ring/trace/ticks.hpp"

namespace anello::group {

class OperationQueue;

struct AsyncOperation;

struct Operation : Planner::Planned {
  Operation() = default;
  Operation(const Call& asked, const Planned& planned) : Planned(planned), call(&asked) {}

  const Call* call = nullptr;
  trace::Ticks queued = 0;
  bool begins_at_once = false;  // true if it begins as soon as it is queued
  std::optional<Error> error;
  std::atomic<bool> done = false;
  Operation* next = nullptr;        // next in the queue
  AsyncOperation* async = nullptr;  // this object if it is an AsyncOperation, otherwise null
};

// Describes the operation in messages, such as "allreduce #3 (sum of 100 f32) 'loss' in group (0, 2)".
std::string describe(const Operation& pending, const link::GroupInfo& group);

struct AsyncOperation : Operation {
  explicit AsyncOperation(std::shared_ptr<OperationQueue> its_owner) : owner(std::move(its_owner)) { async = this; }

  // Copies the call and everything that it borrows. Reuses this object's memory of an earlier operation where possible.
  void keep(const Call& asked);

  const std::shared_ptr<OperationQueue> owner;  // closed when its group ends
  std::function<void(const Error*)> when_done;
  std::shared_ptr<AsyncOperation> self;  // keeps this object alive while it is in the queue

 private:
  Call call_;
  std::string name_;
  std::vector<std::uint64_t> counts_, received_, agreed_, sent_, arriving_;
  std::vector<run::Buffer::Piece> input_, output_;
};

// A pool of asynchronous operations that are done. take() reuses their memory without an allocation.
class AsyncOperationPool {
 public:
  AsyncOperationPool() { spare_.reserve(kMaxSpare); }  // so that put() need not allocate memory
  // Returns an operation of the pool that has no other owner, or a new one. Operations in the pool refer to the queue
  // until clear().
  std::shared_ptr<AsyncOperation> take(OperationQueue& owner);
  void clear() { spare_.clear(); }
  // Adds an operation that is done, even if it still has other owners. Drops it if the pool is full.
  void put(const std::shared_ptr<AsyncOperation>& operation) {
    if (spare_.size() < kMaxSpare) spare_.push_back(operation);
  }

 private:
  static constexpr std::size_t kMaxSpare = 64;
  std::vector<std::shared_ptr<AsyncOperation>> spare_;
};

}  // namespace anello::group
