// A named operation from its submission to its end: what it borrows, the operations of the group that carry it out, and
// its outputs. It lives until they are done, also without a handle. The scheduler's lock guards it until `decided`.
#pragma once
#include <anello/error.hpp>
#include <atomic>
#include <chrono>
#include <cstddef>
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
  NamedOperation(Request request, std::string key);
  // The same for tensors in GPU memory.
  NamedOperation(Request request, std::string key, std::shared_ptr<DeviceOperation> on_device);
  // The part of a rank that has joined, in an operation of others.
  NamedOperation(const Description& description, std::string key);

  // Makes the outputs, and on a rank that has joined what `carrier` needs for tensors in GPU memory. Throws
  // std::bad_alloc or Error{unsupported} if there is no memory for them.
  void prepare(const Agreed& agreed, group::RankAndSize self, DeviceCarrier* carrier);
  // Queues what carries it out, after prepare(). Throws what OperationQueue::submit throws.
  void start(const Agreed& agreed, group::OperationQueue& queue, group::RankAndSize self);
  // It fails before anything is started.
  void fail(Error why) { error_ = std::move(why); }

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
  void set_last(int rank) { last_ = rank; }

  std::atomic<bool> decided = false;
  bool abandoned = false;     // it has no handle
  bool name_is_free = false;  // like the line above, guarded by the scheduler's lock
  const std::chrono::steady_clock::time_point submitted = std::chrono::steady_clock::now();

 private:
  using Work = std::shared_ptr<group::AsyncOperation>;

  void* make_output(std::vector<std::uint64_t> shape, DType dtype);
  ReduceOptions options(DType dtype) const;
  void start_allreduce(group::OperationQueue& queue);
  void start_broadcast(group::OperationQueue& queue, group::RankAndSize self);
  void start_allgather(group::OperationQueue& queue, group::RankAndSize self);
  void start_alltoall(const Agreed& agreed, group::OperationQueue& queue, group::RankAndSize self);
  void start_reduce_scatter(group::OperationQueue& queue, group::RankAndSize self);
  void add(group::OperationQueue& queue, const group::Operation& operation);
  void complete();

  Request request_;
  const std::string key_;
  std::vector<std::unique_ptr<OutputMemory>> memory_;  // of outputs, and of inputs that are not the program's
  std::vector<ArrayView> outputs_;
  std::vector<Sizes> rows_;
  std::vector<Work> works_;
  std::shared_ptr<DeviceOperation> on_device_;  // instead of works_
  std::optional<Error> error_;
  int last_ = -1;
  std::mutex mutex_;  // guards the next
  bool completed_ = false;
};

}  // namespace anello::agenda
