// A named operation from its submission to its end: the tensors that it borrows, the group's operations that carry it
// out, and its outputs. This object exists until these operations are done, even if its handle is gone. The scheduler's
// lock guards this object until `decided` is true.
#pragma once
#include <anello/error.hpp>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ring/agenda/agenda.hpp"
#include "ring/agenda/device_operation.hpp"
#include "ring/agenda/named_call.hpp"
#include "ring/base/mutex.hpp"
#include "ring/group/checks.hpp"
#include "ring/group/operation_queue.hpp"

namespace anello::agenda {

// Memory for outputs, and for inputs that are not the program's. It is not memory from anello::allocate(): every
// operation would have to map its outputs anew on all ranks, which takes up to 15 times as long as the copies, and a
// child made by fork() would share them with its parent.
class OutputMemory {
 public:
  explicit OutputMemory(std::size_t bytes);  // throws std::bad_alloc
  ~OutputMemory() { ::operator delete(data_, alignment_); }
  OutputMemory(const OutputMemory&) = delete;
  OutputMemory& operator=(const OutputMemory&) = delete;
  void* data() const { return data_; }

 private:
  std::align_val_t alignment_;
  void* data_;
};

class NamedOperation : public std::enable_shared_from_this<NamedOperation> {
 public:
  // Call before the operation is reported to other ranks. Allocates the outputs whose size this rank can compute alone.
  // `on_device`: null for tensors in host memory. Throws std::bad_alloc if there is not enough memory.
  NamedOperation(NamedCall request, std::shared_ptr<DeviceOperation> on_device, group::RankAndSize self);
  // For a rank that takes part in other ranks' operation after it has called join(): makes its neutral contribution.
  NamedOperation(const Description& description, std::string key);
  void set_key(std::string key) { key_ = std::move(key); }

  // Allocates the outputs whose sizes depend on other ranks. On a rank that has joined, also makes neutral tensors in
  // GPU memory with `carrier`. Throws std::bad_alloc or Error{unsupported} if there is not enough memory.
  void prepare(const Agreed& agreed, group::RankAndSize self, DeviceCarrier* carrier);
  // Queues the group's operations that carry out this named operation. Call after prepare(). Throws like
  // OperationQueue::submit(); then some of the operations may already be queued.
  void start(const Agreed& agreed, group::OperationQueue& queue, group::RankAndSize self);
  // Like start(), for allreduces that all ranks carry out as one list. The list must have the same operations on all
  // ranks, which differ only in their arrays. prepare() was called for each.
  static void start_list(std::span<const std::shared_ptr<NamedOperation>> list, group::OperationQueue& queue);
  // Sets the error of an operation that was not started, or only partly started.
  void fail(Error why) { error_ = std::move(why); }

  // Calls `callback` once when the operation is done, on the thread that finds this out; see settle(). Returns false,
  // and drops `callback`, if the operation is already done. A second callback replaces the first.
  bool when_done(std::function<void()> callback);
  // Call once the operation is decided and everything for it has been started. If the operation is already done,
  // returns its callback, which the caller must call without the scheduler's lock. Returns null if there is no
  // callback, or if it will be called later.
  std::function<void()> settle();

  const std::string& key() const { return key_; }
  Verb verb() const { return request_.verb; }

  // Call these functions only after `decided` is true. They are for threads that use the operation's handle.
  bool done();
  bool wait(group::Until until);                       // moves data; returns true if the operation is done
  bool moves_data() const { return !works_.empty(); }  // true if this process moves the data, false if a GPU does
  std::optional<Error> error() const;                  // valid once the operation is done
  const std::vector<ArrayView>& outputs() const { return outputs_; }
  const std::vector<Sizes>& rows() const { return rows_; }
  int last() const { return last_; }
  // Call this for a join when all ranks have joined; `rank` has joined last. `parts`: this rank's contributions to
  // operations of other ranks. The join is done when these contributions are done.
  void set_last(int rank, std::vector<std::shared_ptr<NamedOperation>> parts);

  std::atomic<bool> decided = false;
  bool abandoned = false;     // true if the operation's handle is gone; guarded by the scheduler's lock
  bool name_is_free = false;  // guarded by the scheduler's lock
  const std::chrono::steady_clock::time_point submitted = std::chrono::steady_clock::now();
  group::ReportTimes reports;  // when to report this operation; guarded by the scheduler's lock

 private:
  using Work = std::shared_ptr<group::AsyncOperation>;

  void* make_output(std::vector<std::uint64_t> shape, DType dtype);
  void* make_memory(std::uint64_t elems, DType dtype);
  bool scales_integers(DType dtype) const;
  ReduceOptions options(DType dtype) const;
  template <Verb kVerb>
  void start_works(const Agreed& agreed, group::OperationQueue& queue, group::RankAndSize self);
  static void add(group::OperationQueue& queue, const group::Call& call,
                  const std::vector<std::shared_ptr<NamedOperation>>& owners);
  void add(group::OperationQueue& queue, const group::Call& call);
  Tensor moved_aside(const Tensor& output);
  void note_end(const Error* error);
  void complete(bool failed);
  bool watch() ANELLO_REQUIRES(mutex_);
  std::function<void()> end();

  NamedCall request_;
  std::string key_;
  std::vector<std::unique_ptr<OutputMemory>> memory_;  // memory of outputs, and of inputs that are not the program's
  std::vector<ArrayView> outputs_;
  std::vector<void*> scaled_inputs_;  // by tensor; used for a reduce_scatter of integers with a prescale
  std::vector<Sizes> rows_;
  std::vector<Work> works_;
  bool in_list_ = false;  // true if the works belong to several operations
  // Copies of tensors that share memory with another tensor of the list, and the places of their results.
  std::vector<std::pair<Tensor, void*>> aside_;
  std::atomic<int> left_ = 1;                   // number of works and parts that are not done, plus 1 until settle()
  std::atomic<bool> failed_ = false;            // a work has failed
  std::shared_ptr<DeviceOperation> on_device_;  // used instead of works_ for tensors in GPU memory
  std::optional<Error> error_;
  int last_ = -1;
  // For a join: this rank's contributions that were still moving when the last rank joined; see set_last().
  std::vector<std::shared_ptr<NamedOperation>> parts_;
  Mutex mutex_;
  bool completed_ ANELLO_GUARDED_BY(mutex_) = false;
  bool has_ended_ ANELLO_GUARDED_BY(mutex_) = false;
  // `is_on_its_way_`: the operation was started on a GPU. `is_watched_`: watch() was called.
  bool is_on_its_way_ ANELLO_GUARDED_BY(mutex_) = false, is_watched_ ANELLO_GUARDED_BY(mutex_) = false;
  std::function<void()> callback_ ANELLO_GUARDED_BY(mutex_);
};

// True if the operation gives the same bits in a list, where its elements have other places and are added in rank
// order. False if it is too large to gain from a list. `queue`: the queue of the group that carries out the operation.
bool suits_list(const Description& description, const group::OperationQueue& queue);

}  // namespace anello::agenda
