// One group's operations, in the order of their submission. A blocking call acquires the baton if no thread is moving
// the group's data, and moves the bytes itself, without handing them to another thread. The group's background thread
// moves asynchronous operations while no thread waits; it starts with the first of them.
// Any thread. Owned by Group::Impl, which closes it, and by the asynchronous operations that it made; knows links and
// the control plane, not how the ranks found each other.
#pragma once
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "ring/base/process_mark.hpp"
#include "ring/group/baton.hpp"
#include "ring/group/operation_runner.hpp"
#include "ring/group/planner.hpp"

namespace anello::group {

class OperationQueue : public std::enable_shared_from_this<OperationQueue> {
 public:
  struct GroupConfig {
    int rank = 0;  // this rank's, in the group
    std::uint32_t generation = 0;
    algorithms::Facts facts;  // equal on all members
    algorithms::Table table;  // equal on all members
    Settings settings;
    link::WaitPolicy wait_policy;  // of callers; the background thread never spins
    std::shared_ptr<const link::GroupInfo> group;
    std::shared_ptr<trace::FlightRecorder> recorder;
    trace::Timeline* timeline = nullptr;  // outlives this
  };
  // `control` and `links` are null in a world of one.
  OperationQueue(const GroupConfig& config, net::ControlPlane* control, net::DataLinks* links);
  ~OperationQueue() { close(); }

  // Blocks until this rank's part is done. Throws the world's verdict, with the operation and how far it got, and
  // Error{invalid_argument, configuration} if the operation cannot be carried out.
  void run(const Operation& operation);

  // Queues the operation and returns. Copies everything except the tensors. Throws as run(), except for the verdict of
  // a failure that comes later.
  std::shared_ptr<AsyncOperation> submit(const Operation& operation);
  // An alltoall of unequal parts, after the exchange of its counts.
  std::shared_ptr<AsyncOperation> submit(const Operation& counts, const Operation& alltoall);

  // Blocks until the operation is done, and moves data meanwhile.
  void wait(const AsyncOperation& operation);
  // Blocks for `limit` at most, and moves no data. True if the operation is done.
  bool wait_for(const AsyncOperation& operation, std::chrono::milliseconds limit);
  // False if the operation is done already; `callback` is then not called.
  bool when_done(AsyncOperation& operation, std::function<void(const Error*)> callback);

  // Throws Error{invalid_argument} in a child that fork() made: the other ranks would take it for its parent.
  void check_process() const;
  bool in_child() const { return process_.in_child(); }

  // Why the world has failed, if it has.
  std::optional<Error> failure() const;

  // For a world of one, which has no control plane: every later operation fails with this.
  void end(Error why);

  // The group's last handle is gone: when its operations are done, the other members are sent that this rank has left.
  // True if they are done already.
  bool abandon();
  bool idle() const;
  bool has_left() const;  // that was sent

  // Fails all operations that are not done, and blocks until no thread waits for one. Not from a callback.
  void close();

  std::uint64_t completed() const;

 private:
  using Lock = Baton::Lock;

  void check_may_wait() const;
  void enqueue(PendingOperation& pending, const Operation& operation);
  std::shared_ptr<AsyncOperation> submit_locked(const Operation& operation);
  void wait_until_done(Lock& lock, const PendingOperation& pending);
  template <class Until>
  void drive(Lock& lock, link::Waiter& waiter, const std::atomic<int>& interrupt, Until until);
  bool advance(Lock& lock, PendingOperation& head, link::Waiter& waiter, const std::atomic<int>& interrupt);
  void complete(Lock& lock);
  void complete_async(Lock& lock, AsyncOperation& operation);
  void fail_all(Lock& lock, const Error& cause);
  Error verdict(const Error& cause);
  void work();
  void offer_work();
  void release();
  void leave_if_abandoned();

  ProcessMark process_;
  int world_rank_;
  net::ControlPlane* control_;
  std::shared_ptr<const link::GroupInfo> group_;
  std::shared_ptr<trace::FlightRecorder> recorder_;

  mutable std::mutex mutex_;  // guards what follows, except what the thread with the baton uses
  Baton baton_;
  link::Waiter callers_waiter_, threads_waiter_;  // used by the thread with the baton
  OperationRunner runner_;                        // used by the thread with the baton
  Planner planner_;
  PendingOperation *head_ = nullptr, *tail_ = nullptr;
  bool begun_ = false;  // the head
  bool abandoned_ = false, left_ = false;
  std::uint64_t submitted_ = 0, completed_ = 0;
  std::optional<Error> failure_;
  AsyncOperationPool pool_;
  std::thread thread_;
};

}  // namespace anello::group
