// The named operations of one group. A rank submits them in any order and from any thread. The agendas of all ranks
// exchange messages over their own links, and agree on which operations start. The scheduler submits these operations
// in the agreed order to another group of the same members. It does not use the group that make() was given, so calls
// on that group keep their own order.
//
// A thread that waits takes the baton and moves the messages itself. At other times the rank's progress thread moves
// them, but only while an operation that this rank has submitted is not decided: otherwise no other rank needs this
// rank's answer. No thread wakes up without work. If the world fails, all operations that are not done fail with the
// verdict. Any thread. Must be owned by a shared_ptr. Uses the control plane and links; does not depend on how the
// ranks were connected.
#pragma once
#include <anello/group.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ring/agenda/agenda.hpp"
#include "ring/agenda/late_operations.hpp"
#include "ring/agenda/message_links.hpp"
#include "ring/agenda/named_operation.hpp"
#include "ring/base/mutex.hpp"
#include "ring/group/baton.hpp"
#include "ring/group/group_impl.hpp"
#include "ring/group/progress_thread.hpp"
#include "ring/group/stall_clock.hpp"

namespace anello::agenda {

class Scheduler : public group::Movable, public std::enable_shared_from_this<Scheduler> {
 public:
  // A collective that does not communicate: all ranks of the group must make their schedulers in the same order. Throws
  // Error{invalid_argument} if the world has ended, and Error{network} if no descriptor is left.
  static std::shared_ptr<Scheduler> make(const Group& group);
  // After all ranks of the group have made this call, tensors may be in GPU memory. Throws Error{invalid_argument} if
  // this rank has already made this call.
  void use(std::unique_ptr<DeviceCarrier> carrier);
  ~Scheduler() override;

  using Handle = std::shared_ptr<NamedOperation>;
  // Submits a call. Does not block, unless the world has failed. `waits`: true if the caller calls wait() at once; then
  // nothing moves before wait(). If a tensor, an option or the name is wrong, throws Error{invalid_argument}. If there
  // is not enough memory for the outputs, throws Error{unsupported} or std::bad_alloc. If the world has failed, throws
  // the verdict.
  Handle submit(NamedCall request, bool waits = false);
  // Call when the program's call of an operation was refused before submit(). The call counts as submitted, and the
  // operation fails on the other ranks with the reason. Do not call it for a join. Does not block. Does nothing if
  // submit() would throw.
  void refuse(std::string_view name, Verb verb, const std::string& why);
  // Blocks until the operation is done, or until the time `until`. Moves messages and data while it waits. Returns true
  // if the operation is done; its name is then free. Throws Error{invalid_argument} in a child that fork() made.
  bool wait(NamedOperation& operation, group::Until until = {});
  // Returns true if the operation is done; its name is then free. Does not block.
  bool done(NamedOperation& operation);
  // Calls `callback` once when the operation is done and its name is free: at once if it is already done, otherwise on
  // the thread that finds the operation done. That thread holds no lock. The callback may submit operations. It must
  // not block (wait() throws) or throw. A second callback replaces the first if the first was not called yet.
  void when_done(const Handle& operation, std::function<void(const Error*)> callback);
  // Call when the operation's handle is gone.
  void abandon(NamedOperation& operation);
  // Describes in one line why the operation waits.
  std::string describe(const NamedOperation& operation);

  int size() const { return self_.size; }       // the number of ranks
  const Group& ranks() const { return data_; }  // for making other groups of these ranks

  // Ends the scheduler. The neighbours get a message, and operations that are not decided fail with Error{aborted}.
  // Blocks until no thread waits for a decision. If the network does not accept the messages that this rank must pass
  // on, blocks for at most the silence limit. The world calls this before it ends.
  void close();

  Progress progress() override;
  bool prepare_sleep(link::Waiter& waiter, std::chrono::milliseconds& limit) override;
  void slept(trace::Ticks) override;

 private:
  using Lock = group::Baton::Lock;
  class Access;  // holds the lock, and then calls the callbacks

  Scheduler(Group messages, Group data);
  group::OperationQueue& queue() { return GroupAccess::queue(data_); }
  std::shared_ptr<DeviceOperation> make_on_device(const NamedCall& request);
  void enlist(Lock& lock, std::string_view name, const std::pair<Description, Sizes>& mine, const Handle& operation)
      ANELLO_REQUIRES(mutex_);
  void say_more() ANELLO_REQUIRES(mutex_);
  bool has_work() const ANELLO_REQUIRES(mutex_);
  template <class Work>
  void or_end_world(Lock& lock, Work work) ANELLO_REQUIRES(mutex_);
  bool move(Lock& lock) ANELLO_REQUIRES(mutex_);
  void carry_out_decisions() ANELLO_REQUIRES(mutex_);
  void carry_out(std::span<const Decision> decisions) ANELLO_REQUIRES(mutex_);
  void apply(const Decision& decision, Handle& operation) ANELLO_REQUIRES(mutex_);
  void cannot_go_on(const std::string& key, const std::exception& why) ANELLO_REQUIRES(mutex_);
  void settle(NamedOperation& operation) ANELLO_REQUIRES(mutex_);
  void call_back(Lock& lock) ANELLO_REQUIRES(mutex_);
  bool world_has_failed(Lock& lock) ANELLO_REQUIRES(mutex_);
  void fail(Lock& lock, const std::exception& thrown) ANELLO_REQUIRES(mutex_);
  void end_all(Error why) ANELLO_REQUIRES(mutex_);
  void wait_for_decision(Lock& lock, const NamedOperation& operation, group::Until until) ANELLO_REQUIRES(mutex_);
  bool sleep(Lock& lock, group::Until until) ANELLO_REQUIRES(mutex_);
  std::chrono::milliseconds note_stuck() ANELLO_REQUIRES(mutex_);
  void flush(Lock& lock) ANELLO_REQUIRES(mutex_);
  void free_name(NamedOperation& operation) ANELLO_REQUIRES(mutex_);
  int world_rank(int member) const { return carriers_.info->members[std::size_t(member)]; }
  void offer() ANELLO_REQUIRES(mutex_);
  void offer_started() ANELLO_REQUIRES(mutex_);

  Group messages_, data_;  // messages_: its links carry the agendas' messages, and its queue is empty
  const group::RankAndSize self_;
  const group::Carriers carriers_;

  Mutex mutex_;
  std::unique_ptr<DeviceCarrier> carrier_ ANELLO_GUARDED_BY(mutex_);  // null: all tensors are in host memory
  group::Baton baton_ ANELLO_GUARDED_BY(mutex_);
  link::Waiter waiter_;  // used by a caller that has the baton
  MessageLinks links_;
  Agenda agenda_ ANELLO_GUARDED_BY(mutex_);
  LateOperations::Undecided undecided_ ANELLO_GUARDED_BY(mutex_);
  std::vector<Handle> parts_ ANELLO_GUARDED_BY(mutex_);  // contributions after this rank's join that are not done
  std::optional<Error> failure_ ANELLO_GUARDED_BY(mutex_);
  // The number of decisions received here. All ranks receive the same decisions in the same order.
  std::uint64_t decided_ ANELLO_GUARDED_BY(mutex_) = 0;
  std::vector<std::function<void()>> callbacks_ ANELLO_GUARDED_BY(mutex_);  // callbacks of operations that are done
  bool sleeps_ ANELLO_GUARDED_BY(mutex_) = false;   // true while the thread with the baton sleeps
  bool started_ ANELLO_GUARDED_BY(mutex_) = false;  // true if operations of data_ were started but not yet offered
  group::StallClock stall_ ANELLO_GUARDED_BY(mutex_);
  const LateOperations late_;
};

// Each public function makes one, on any thread. Its destructor calls the callbacks without the lock, because they may
// submit operations.
class ANELLO_ATTRIBUTE(scoped_lockable) Scheduler::Access : public Lock {
 public:
  explicit Access(Scheduler& scheduler) ANELLO_ACQUIRE(scheduler.mutex_)
      : Lock(scheduler.mutex_), scheduler_(scheduler) {}
  ~Access() ANELLO_RELEASE() { scheduler_.call_back(*this); }

 private:
  Scheduler& scheduler_;
};

// Runs `work`. Any error in it ends the world, because other ranks may wait for the rest of the work.
template <class Work>
void Scheduler::or_end_world(Lock& lock, Work work) {
  try {
    work();
  } catch (const std::exception& e) {
    fail(lock, e);
  }
}

}  // namespace anello::agenda
