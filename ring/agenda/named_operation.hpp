// A named operation from its submission to its end: what it borrows, the operations of the group that carry it out, and
// its outputs. It lives until they are done, also without a handle. The scheduler's lock guards it until `decided`.
#pragma once
#include <anello/error.hpp>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "ring/agenda/agenda.hpp"
#include "ring/agenda/device_operation.hpp"
#include "ring/agenda/request.hpp"
#include "ring/group/checks.hpp"
#include "ring/group/operation_queue.hpp"

namespace anello::agenda {

// Memory for outputs. Ranks of one host can read it directly where it is large.
class OutputMemory {
 public:
  explicit OutputMemory(std::size_t bytes);  // throws Error{unsupported}, std::bad_alloc
  ~OutputMemory();
  OutputMemory(const OutputMemory&) = delete;
  OutputMemory& operator=(const OutputMemory&) = delete;
  void* data() const { return data_; }

 private:
  std::size_t bytes_;
  void* data_;
};

class NamedOperation : public std::enable_shared_from_this<NamedOperation> {
 public:
  // Before the other ranks learn of it: makes the memory whose size this rank can tell. `on_device` is null for tensors
  // in host memory. Throws std::bad_alloc or Error{unsupported} if there is none.
  NamedOperation(Request request, std::shared_ptr<DeviceOperation> on_device, group::RankAndSize self);
  // The part of a rank that has joined, in an operation of others.
  NamedOperation(const Description& description, std::string key);
  void set_key(std::string key) { key_ = std::move(key); }

  // Makes the outputs whose sizes depend on other ranks, and on a rank that has joined what `carrier` needs for tensors
  // in GPU memory. Throws std::bad_alloc or Error{unsupported} if there is no memory for them.
  void prepare(const Agreed& agreed, group::RankAndSize self, DeviceCarrier* carrier);
  // Queues what carries it out, after prepare(). Throws what OperationQueue::submit throws; then a part may be queued.
  void start(const Agreed& agreed, group::OperationQueue& queue, group::RankAndSize self);
  // It was not started, or not all of it.
  void fail(Error why) { error_ = std::move(why); }

  // Has `callback` called once, when the operation is done, by the thread that finds that; see settle(). False: it is
  // done, and nothing is called. A second callback replaces the first.
  bool when_done(std::function<void()> callback);
  // Once it is decided and nothing more is started. If it is done then, its callback is returned, to be called without
  // the scheduler's lock; null: there is none, or it is called later.
  std::function<void()> settle();

  const std::string& key() const { return key_; }
  Verb verb() const { return request_.verb; }

  // After `decided`, by the threads of its handle.
  bool done();
  bool wait(group::Until until);                       // moves data; true if it is done
  bool moves_data() const { return !works_.empty(); }  // in this process, and not on a GPU
  std::optional<Error> error() const;                  // once it is done
  const std::vector<ArrayView>& outputs() const { return outputs_; }
  const std::vector<Sizes>& rows() const { return rows_; }
  int last() const { return last_; }
  // join: all ranks have joined, `rank` last. It is done when this rank's parts in operations of others are.
  void set_last(int rank, std::vector<std::shared_ptr<NamedOperation>> parts);

  std::atomic<bool> decided = false;
  bool abandoned = false;     // it has no handle
  bool name_is_free = false;  // like the line above, guarded by the scheduler's lock
  const std::chrono::steady_clock::time_point submitted = std::chrono::steady_clock::now();
  std::chrono::milliseconds reported{0};  // how old it was then; guarded by the scheduler's lock

 private:
  using Work = std::shared_ptr<group::AsyncOperation>;

  void* make_output(std::vector<std::uint64_t> shape, DType dtype);
  void* make_memory(std::uint64_t elems, DType dtype);
  bool scales_integers(DType dtype) const;
  ReduceOptions options(DType dtype) const;
  void start_allreduce(group::OperationQueue& queue);
  void start_broadcast(group::OperationQueue& queue, group::RankAndSize self);
  void start_allgather(group::OperationQueue& queue, group::RankAndSize self);
  void start_alltoall(const Agreed& agreed, group::OperationQueue& queue, group::RankAndSize self);
  void start_reduce_scatter(group::OperationQueue& queue, group::RankAndSize self);
  void start_works(const Agreed& agreed, group::OperationQueue& queue, group::RankAndSize self);
  void add(group::OperationQueue& queue, const group::Operation& operation);
  void note_end(const Error* error);
  void complete(bool failed);
  bool watch();
  std::function<void()> end();

  Request request_;
  std::string key_;
  std::vector<std::unique_ptr<OutputMemory>> memory_;  // of outputs, and of inputs that are not the program's
  std::vector<ArrayView> outputs_;
  std::vector<void*> scaled_inputs_;  // reduce_scatter of integers with a prescale: by tensor
  std::vector<Sizes> rows_;
  std::vector<Work> works_;
  std::atomic<int> left_ = 1;                   // works and parts that are not done; and one, until it is settled
  std::atomic<bool> failed_ = false;            // one of them
  std::shared_ptr<DeviceOperation> on_device_;  // instead of works_
  std::optional<Error> error_;
  int last_ = -1;
  std::vector<std::shared_ptr<NamedOperation>> parts_;  // join
  std::mutex mutex_;                                    // guards what follows
  bool completed_ = false;
  bool has_ended_ = false;
  bool is_on_its_way_ = false, is_watched_ = false;  // on a GPU
  std::function<void()> callback_;
};

}  // namespace anello::agenda
