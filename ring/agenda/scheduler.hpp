// Named operations of one group. A rank submits them in any order and from any thread; the agendas of all ranks agree
// on what starts, over links of their own, and what they agree on is handed to a group of the same members in that
// order. The group that the scheduler is made of is not used, so calls on it keep their own order.
//
// A thread that waits takes the baton and moves the messages itself; otherwise the rank's progress thread does, but
// only while something that this rank has submitted is not decided: before that, no rank needs its answer. Nothing
// wakes up when there is nothing to do. A failure of the world fails everything that is not done, with the verdict. Any
// thread. Make it shared. Knows the control plane and links, not how the ranks found each other.
#pragma once
#include <anello/group.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "ring/agenda/agenda.hpp"
#include "ring/agenda/message_links.hpp"
#include "ring/agenda/named_operation.hpp"
#include "ring/group/baton.hpp"
#include "ring/group/group_impl.hpp"
#include "ring/group/progress_thread.hpp"

namespace anello::agenda {

class Scheduler : public group::Movable, public std::enable_shared_from_this<Scheduler> {
 public:
  // A collective that does not communicate: all ranks of the group make their schedulers of it in the same order.
  // Throws Error{invalid_argument} if the world has ended, and Error{network} if there is no descriptor left.
  static std::shared_ptr<Scheduler> make(const Group& group);
  // From now on tensors may lie in GPU memory, if all ranks of the group have made this call. Throws
  // Error{invalid_argument} if it was made before.
  void use(std::unique_ptr<DeviceCarrier> carrier);
  ~Scheduler() override;

  using Handle = std::shared_ptr<NamedOperation>;
  // Does not block. `waits`: the caller calls wait() at once, and nothing moves before. Throws Error{invalid_argument}
  // if a tensor, an option or the name is wrong, and the verdict if the world has failed.
  Handle submit(Request request, bool waits = false);
  // Blocks until the operation is done, or until that time; moves messages and data meanwhile. True: it is done, and
  // its name is free. Throws Error{invalid_argument} in a child that fork() made.
  bool wait(NamedOperation& operation, group::Until until = {});
  // Does not block. True: it is done, and its name is free.
  bool done(NamedOperation& operation);
  // Its handle is gone.
  void abandon(NamedOperation& operation);
  // What it waits for, in one line.
  std::string describe(const NamedOperation& operation);

  int size() const { return self_.size; }       // the number of ranks
  const Group& ranks() const { return data_; }  // to make other groups of them

  // Ends the scheduler: the neighbours are told, and what is not decided fails with Error{aborted}. Blocks until no
  // thread waits for a decision, and, if the network does not take what this rank has to pass on to others, for the
  // silence limit. The world calls it before it ends.
  void close();

  Progress progress() override;
  bool prepare_sleep(link::Waiter& waiter, std::chrono::milliseconds& limit) override;
  void slept(trace::Ticks) override;

 private:
  using Lock = group::Baton::Lock;
  static constexpr std::chrono::milliseconds kDiagnosisAfter{200};  // without a move

  Scheduler(Group messages, Group data, std::vector<int> members);
  group::OperationQueue& queue() { return GroupAccess::queue(data_); }
  std::shared_ptr<DeviceOperation> make_on_device(const Request& request);
  Handle enlist(Lock& lock, Request request, const std::pair<Description, Sizes>& mine,
                std::shared_ptr<DeviceOperation> on_device);
  bool has_work() const;
  bool move(Lock& lock);
  bool receive();
  bool send();
  void carry_out_decisions();
  void carry_out(const Decision& decision);
  void begin(NamedOperation& operation, const Agreed& agreed);
  void settle(NamedOperation& operation);
  bool world_has_failed(Lock& lock);
  void fail(Lock& lock, const Error& cause);
  void end_all(const Error& why);
  void wait_for_decision(Lock& lock, const NamedOperation& operation, group::Until until);
  void sleep(Lock& lock, group::Until until);
  std::chrono::milliseconds note_stuck();
  void end_if_overdue(std::chrono::milliseconds stuck);
  void flush(Lock& lock);
  void free_name(NamedOperation& operation);
  // In a child that fork() made, threads that do not exist there may have the lock.
  bool in_child() const { return GroupAccess::queue(data_).in_child(); }
  void offer();
  void offer_started();

  Group messages_, data_;  // the links of the first carry messages; its queue is empty
  const group::RankAndSize self_;
  const std::vector<int> members_;
  const group::Carriers carriers_;
  const std::chrono::milliseconds report_after_, silence_limit_, operation_limit_;

  std::mutex mutex_;                        // guards what follows
  std::unique_ptr<DeviceCarrier> carrier_;  // null: all tensors lie in host memory
  group::Baton baton_;
  link::Waiter waiter_;  // of callers; used by the thread with the baton, like the links
  MessageLinks links_;
  Agenda agenda_;
  std::map<std::string, Handle, std::less<>> undecided_;  // by key
  std::optional<Error> failure_;
  bool sleeps_ = false;   // the thread with the baton
  bool started_ = false;  // operations of data_ that were not offered
  bool closing_ = false;
  std::optional<std::chrono::steady_clock::time_point> stuck_since_;
  std::chrono::milliseconds next_report_;
};

}  // namespace anello::agenda
