// One group's operations, in the order of their submission. Who waits, drives: a call that finds nobody at work takes
// the baton and moves the bytes itself, without a hand-off to another thread. What nobody waits for is driven by a
// thread of its own, which is started with the first asynchronous operation and gives the baton up to whoever waits.
// Any thread. Owned by the world; knows links and the control plane, not how ranks were found.
#pragma once
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "ring/group/operation_runner.hpp"
#include "ring/group/planner.hpp"

namespace anello {

class OperationQueue {
 public:
  // What a group of ranks is, of which this is one.
  struct GroupConfig {
    int rank = 0;  // in the group
    std::uint32_t generation = 0;
    Facts facts;  // the same on all members
    Table table;  // the same on all members
    Settings settings;
    WaitPolicy patience;  // of a caller; the thread never spins
    std::shared_ptr<FlightRecorder> recorder;
    Timeline* timeline = nullptr;  // outlives this
  };
  // ControlPlane and links are null in a world of one.
  OperationQueue(const GroupConfig& config, ControlPlane* control, DataLinks* links);
  ~OperationQueue() { close(); }

  // Blocks until this rank's part is done. Throws the world's verdict, with the operation and how far it got; and
  // Error{invalid_argument, configuration} where the operation is none.
  void run(const Operation& operation);

  // The same, without waiting for it to be done. Everything is copied but the tensors.
  std::shared_ptr<AsyncOperation> submit(const Operation& operation);
  // An alltoall of unequal parts, behind the exchange of its counts.
  std::shared_ptr<AsyncOperation> submit(const Operation& counts, const Operation& alltoall);

  // Of operations that are not done. With a limit: false if it was not done by then, and nothing is driven.
  void wait(const AsyncOperation& pending);
  bool wait_for(const AsyncOperation& pending, std::chrono::milliseconds limit);
  // False if it is done already, and nothing will be called.
  bool when_done(AsyncOperation& pending, std::function<void(const Error*)> callback);

  // Why the world has failed, if it has.
  std::optional<Error> failure() const;

  // For a world of one, which has no control plane: every later operation fails with this.
  void end(Error why);

  // Nothing goes on any more; what is not done has failed, also where other threads wait for it: blocks until they have
  // gone. Not from a callback.
  void close();

  std::uint64_t completed() const;

 private:
  using Lock = std::unique_lock<std::mutex>;
  static constexpr std::size_t kSpareTickets = 64;

  void check_may_wait() const;
  void enqueue(PendingOperation& pending, const Operation& operation);
  std::shared_ptr<AsyncOperation> lasting(const Operation& operation);
  std::shared_ptr<AsyncOperation> spare();
  void wait_until_done(Lock& lock, const PendingOperation& pending);
  template <class Until>
  void drive(Lock& lock, Waiter& waiter, const std::atomic<int>& interrupt, Until until);
  bool advance(Lock& lock, PendingOperation& head, Waiter& waiter, const std::atomic<int>& interrupt);
  void complete(Lock& lock);
  std::string describe(const PendingOperation& pending) const;
  void fail_all(Lock& lock, const Error& cause);
  Error verdict(const Error& cause);
  void work();
  void offer_work();

  int world_rank_;
  ControlPlane* control_;
  std::shared_ptr<FlightRecorder> recorder_;
  Waiter callers_waiter_, threads_waiter_;  // of who has the baton
  OperationRunner engine_;                  // the same
  std::atomic<int> wanted_ = 0;             // by so many is the baton, which the thread should give up
  std::atomic<int> closed_ = 0;             // nobody goes on

  mutable std::mutex mutex_;                // over everything below
  std::condition_variable changed_, work_;  // for callers; for the thread
  Planner planner_;
  bool driven_ = false;  // somebody has the baton
  int watching_ = 0;     // so many callers wait for `changed_`
  PendingOperation *head_ = nullptr, *tail_ = nullptr;
  bool begun_ = false;  // the head
  std::uint64_t submitted_ = 0, completed_ = 0;
  std::optional<Error> failure_;
  std::vector<std::shared_ptr<AsyncOperation>> spare_;
  std::thread thread_;
};

}  // namespace anello
