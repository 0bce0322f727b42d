// One group's operations, in the order of their submission. A blocking call acquires the baton if no thread is moving
// the group's data, and moves the bytes itself, without another thread. While no thread waits, the rank's progress
// thread moves asynchronous operations. Any thread. Owned by Group::Impl, which closes the queue, and by the
// asynchronous operations that the queue made. Uses links and the control plane; does not depend on how the ranks were
// connected.
#pragma once
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string_view>
#include <vector>

#include "ring/base/mutex.hpp"
#include "ring/group/baton.hpp"
#include "ring/group/caller_checks.hpp"
#include "ring/group/operation_runner.hpp"
#include "ring/group/pending_list.hpp"
#include "ring/group/planner.hpp"
#include "ring/group/progress_thread.hpp"

namespace anello::group {

// Returns the error of a rank that is out of memory. Allocates nothing, because the message is short enough for
// std::string's internal buffer.
Error out_of_memory(int world_rank);
// Returns the error of operations whose owner has ended on this rank. `what`: the name of the owner. Returns
// out_of_memory() if memory is short.
Error ended(const char* what, int world_rank);

// Returns the error that find() returns. If find() runs out of memory, ends the world without allocating. `control` may
// be null.
template <class Find>
Error or_out_of_memory(control::ControlPlane* control, int world_rank, Find find) {
  try {
    return find();
  } catch (const std::bad_alloc&) {
    if (control) control->abort_without_memory();
    return out_of_memory(world_rank);
  }
}

class OperationQueue : public Movable, public std::enable_shared_from_this<OperationQueue> {
 public:
  struct GroupConfig {
    int rank = 0;  // this process's rank in the group
    std::uint32_t generation = 0;
    algorithms::Facts facts;  // equal on all members
    std::vector<int> hosts;   // host of each member, in Planner's format
    algorithms::Table table;  // equal on all members
    Settings settings;
    link::WaitPolicy wait_policy;  // how callers wait for an operation
    std::shared_ptr<ProgressThread> progress_thread;
    std::shared_ptr<const link::GroupInfo> group;
    std::shared_ptr<trace::FlightRecorder> recorder;
    trace::Timeline* timeline = nullptr;  // must outlive the queue
  };
  // `control` and `links` are null in a world of one.
  OperationQueue(const GroupConfig& config, control::ControlPlane* control, net::DataLinks* links);
  ~OperationQueue() override { close(); }

  // Blocks until this rank's part is done. If the world fails, throws the world's verdict, with the operation and its
  // progress. Throws Error{invalid_argument, configuration} if the operation cannot be carried out.
  void run(const Call& operation);

  // Queues the operation and returns. Copies everything except the tensors. Throws like run(), except that a later
  // failure of the world is not thrown here.
  std::shared_ptr<AsyncOperation> submit(const Call& operation);
  // Like submit(), but nothing moves until a caller waits for an operation or calls offer_work(). `when_done`: the
  // operation's callback, see when_done(). It is set before the operation can end.
  std::shared_ptr<AsyncOperation> submit_quietly(const Call& operation,
                                                 std::function<void(const Error*)> when_done = nullptr);
  // See Planner::adds_in_rank_order().
  bool adds_in_rank_order(const Call& call) const;
  // Calls `callback` once when all operations are done, without a lock, on the thread that finds this out. Returns
  // false, and drops `callback`, if they are done already. A second callback replaces the first.
  bool when_idle(std::function<void()> callback);
  // Lets the progress thread move the queue's operations while no caller moves them.
  void offer_work();
  // Submits an alltoall of unequal parts. First submits `counts`, the exchange of its counts.
  std::shared_ptr<AsyncOperation> submit(const Call& counts, const Call& alltoall);

  // Use this when the program's next operation was refused on this rank, for example because of a wrong argument. It
  // sends `why` to the ranks that wait for this rank.
  void refused(std::string_view why) noexcept;

  // Blocks until the operation is done, or until the time `until`. Moves data while it waits. Returns true if the
  // operation is done.
  bool wait(const AsyncOperation& operation, const Until& until = {});
  // Blocks for at most `limit`, without moving data. Returns true if the operation is done.
  bool wait_for(const AsyncOperation& operation, std::chrono::milliseconds limit);
  // Sets the operation's callback. Returns false and drops `callback` if the operation is already done.
  bool when_done(AsyncOperation& operation, std::function<void(const Error*)> callback);

  // True if `peer` (a rank of the group) has sent something for the next operation. False while an operation is
  // pending, because arriving data then belongs to that operation. Throws like run(), and also if the peer has left and
  // sends nothing more.
  bool has_arrived(int peer);

  const CallerChecks& caller() const { return caller_; }

  // Returns the error with which the world has failed; empty if the world has not failed.
  std::optional<Error> failure() const;

  // For a world of one, which has no control plane: makes every later operation throw `why`.
  void end(Error why);

  // Call when the group's last handle is gone. This rank sends its goodbye to the other members when all operations are
  // done. Returns true if all operations are already done.
  bool abandon();
  bool idle() const;
  bool has_left() const;  // true if the goodbye was sent

  // Fails all operations that are not done, and blocks until no thread waits for any of them. Must not be called in a
  // callback.
  void close();

  std::uint64_t completed() const;
  // Adds to the number of operations those that another room carried out with the group's links. The queue must have no
  // operations then.
  void carried_out(std::uint64_t operations);

  Progress progress() override;
  bool prepare_sleep(link::Waiter& waiter, std::chrono::milliseconds& limit) override;
  void slept(trace::Ticks from) override;

 private:
  using Lock = Baton::Lock;

  const Planner::Planned& plan(const Call& operation, std::uint64_t earlier = 0) ANELLO_REQUIRES(mutex_);
  void prepare(Operation& pending, std::uint64_t earlier = 0) ANELLO_REQUIRES(mutex_);
  bool has_failed() ANELLO_REQUIRES(mutex_);
  void enqueue(Operation& pending, const std::shared_ptr<AsyncOperation>& async = nullptr) ANELLO_REQUIRES(mutex_);
  std::shared_ptr<AsyncOperation> prepare_async(const Call& operation, std::uint64_t earlier = 0)
      ANELLO_REQUIRES(mutex_);
  bool wait_until_done(Lock& lock, const Operation& pending, const Until& until = {}) ANELLO_REQUIRES(mutex_);
  template <class Advance>
  bool advance(Lock& lock, Operation& head, Advance advance) ANELLO_REQUIRES(mutex_);
  void complete(Lock& lock) ANELLO_REQUIRES(mutex_);
  void complete_async(Lock& lock, AsyncOperation& operation) ANELLO_REQUIRES(mutex_);
  Error cause_of(const std::exception& thrown) const;
  void fail_all(Lock& lock, const std::exception& thrown) ANELLO_REQUIRES(mutex_);
  void fail_head(const std::string& how_far) ANELLO_REQUIRES(mutex_);
  Error verdict(const Error& cause);
  void offer() ANELLO_REQUIRES(mutex_);
  void release() ANELLO_REQUIRES(mutex_);
  void leave_if_abandoned() ANELLO_REQUIRES(mutex_);

  CallerChecks caller_;
  int world_rank_;
  control::ControlPlane* control_;
  std::shared_ptr<const link::GroupInfo> group_;
  std::shared_ptr<trace::FlightRecorder> recorder_;

  mutable Mutex mutex_;  // does not guard the members that only the thread with the baton uses
  Baton baton_ ANELLO_GUARDED_BY(mutex_);
  link::Waiter waiter_;     // used by a caller that has the baton
  OperationRunner runner_;  // used by the thread that has the baton
  Planner planner_ ANELLO_GUARDED_BY(mutex_);
  PendingList pending_ ANELLO_GUARDED_BY(mutex_);
  bool abandoned_ ANELLO_GUARDED_BY(mutex_) = false, left_ ANELLO_GUARDED_BY(mutex_) = false;
  std::optional<Error> failure_ ANELLO_GUARDED_BY(mutex_);
  AsyncOperationPool pool_ ANELLO_GUARDED_BY(mutex_);
  const std::shared_ptr<ProgressThread> progress_thread_;
  bool asynchronous_ ANELLO_GUARDED_BY(mutex_) = false;  // true once an asynchronous operation was submitted
  // True once has_arrived() has asked the control plane why no message comes.
  bool asked_why_ ANELLO_GUARDED_BY(mutex_) = false;
};

}  // namespace anello::group
