// A call with a number, between its submission and its end. The operation of a blocking call is on the caller's stack
// and borrows what the call borrows; an asynchronous operation keeps a copy of everything except the tensors. Guarded
// by the queue's mutex, except `done`, after which nothing changes.
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
  bool begins_at_once = false;  // it begins when it is queued
  std::optional<Error> error;
  std::atomic<bool> done = false;
  Operation* next = nullptr;        // next in the queue
  AsyncOperation* async = nullptr;  // this object, if it is asynchronous
};

// For messages, such as "allreduce #3 (sum of 100 f32) 'loss' in group (0, 2)".
std::string describe(const Operation& pending, const link::GroupInfo& group);

struct AsyncOperation : Operation {
  explicit AsyncOperation(std::shared_ptr<OperationQueue> its_owner) : owner(std::move(its_owner)) { async = this; }

  // Copies the call and what it borrows. Reuses the memory of an earlier operation where it is large enough.
  void keep(const Call& asked);

  const std::shared_ptr<OperationQueue> owner;  // is closed once its group is gone
  std::function<void(const Error*)> when_done;
  std::shared_ptr<AsyncOperation> self;  // set while it is in the queue

 private:
  Call call_;
  std::string name_;
  std::vector<std::uint64_t> counts_, received_, agreed_, sent_, arriving_;
  std::vector<run::Buffer::Piece> input_, output_;
};

// Asynchronous operations that are done, for reuse without allocation.
class AsyncOperationPool {
 public:
  AsyncOperationPool() { spare_.reserve(kMaxSpare); }  // so that put() cannot fail
  // Returns an operation of the pool that has no other references, or a new one. The operations in the pool also refer
  // to the queue, until clear().
  std::shared_ptr<AsyncOperation> take(OperationQueue& owner);
  void clear() { spare_.clear(); }
  // Adds an operation that is done; others may still refer to it. Dropped if the pool is full.
  void put(const std::shared_ptr<AsyncOperation>& operation) {
    if (spare_.size() < kMaxSpare) spare_.push_back(operation);
  }

 private:
  static constexpr std::size_t kMaxSpare = 64;
  std::vector<std::shared_ptr<AsyncOperation>> spare_;
};

}  // namespace anello::group
