// The state of a Group: its links, its queue and its recorder. Owned by the world and by the group's handles. After the
// world has ended, calls fail. Any thread.
#pragma once
#include <anello/group.hpp>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "ring/base/mutex.hpp"
#include "ring/group/checks.hpp"
#include "ring/group/operation_queue.hpp"
#include "ring/net/link_router.hpp"

namespace anello {
namespace group {

// The links and threads of a group, for the code in `ring/agenda` and `gpu`. This code sends messages other than
// operations, or moves operations in its own way. While it uses the group's links and threads, the group's own queue
// must have no operations. Valid until this rank leaves the group.
struct Carriers {
  std::shared_ptr<const link::GroupInfo> info;
  std::shared_ptr<net::DataLinks> links;  // null in a world of one
  control::ControlPlane* control = nullptr;
  std::shared_ptr<ProgressThread> progress_thread;
  link::WaitPolicy wait_policy;
  std::shared_ptr<trace::FlightRecorder> recorder;
  trace::Timeline* timeline = nullptr;
  std::uint32_t generation = 0;
};

// carry_out() and carry_out_with_counts() carry out a call, and block until this rank's part is done. start() only
// starts the call. An alltoall of unequal parts begins with an exchange of the counts. All of these throw like
// OperationQueue::run() and submit().
void carry_out_with_counts(OperationQueue& queue, const Call& alltoall);
inline bool exchanges_counts(const Call& call) {
  return call.kind == Kind::alltoall && !call.counts.empty();
}
inline void carry_out(OperationQueue& queue, const Call& call) {
  return exchanges_counts(call) ? carry_out_with_counts(queue, call) : queue.run(call);
}
std::shared_ptr<AsyncOperation> start(OperationQueue& queue, const Call& call);

}  // namespace group

class Group::Impl {
 public:
  // The services of the world for its groups, and callbacks into the world. Valid until leave() has returned; the world
  // calls leave() for each group before it ends.
  struct GroupContext {
    trace::FlightRecorders* recorders = nullptr;
    control::ControlPlane* control = nullptr;  // null in a world of one
    net::LinkRouter* link_router = nullptr;    // null in a world of one
    // Returns the group of these world ranks. `within`: the number of the group that makes it.
    std::function<std::shared_ptr<Impl>(std::uint64_t within, std::vector<int> ranks)> make_group;
    // Returns the group for the transfers from world rank `from` to world rank `to` in group `within`.
    std::function<std::shared_ptr<Impl>(std::uint64_t within, int from, int to)> make_transfers;
    std::function<void(const Impl&)> forget;  // removes the group from the world, when this rank has left it
    std::function<void(std::string_view reason, ErrorCode code)> abort;
  };

  Impl(group::OperationQueue::GroupConfig config, std::shared_ptr<net::DataLinks> links, GroupContext context);
  ~Impl() { leave(); }
  // Returns a handle of the group. The world owns the group until the group's last handle is destroyed and its
  // operations are done. Then this rank leaves the group.
  static std::shared_ptr<Impl> handle(std::shared_ptr<Impl> group);
  bool idle() const;     // true if no operation or transfer is pending
  bool is_over() const;  // true if the group has no handle and is idle

  group::OperationQueue& queue();  // throws Error{invalid_argument} after finish()
  std::shared_ptr<Impl> make(std::vector<int> ranks) const;
  // Ends the world with this reason. Does nothing once the world has ended.
  void abort(std::string_view reason, ErrorCode code = ErrorCode::aborted) const;
  std::optional<Error> failure() const { return queue_->failure(); }
  // Returns the queue of the transfers to member `to`, or from member `from`. Throws Error{invalid_argument} if `to` or
  // `from` is this rank or not a member.
  group::OperationQueue& sends(int to);
  group::OperationQueue& receives(int from, std::string_view call = "recv");

  void finish() { finished_ = true; }
  // Like leave(), for a group whose operations use memory that their owner is about to free. If operations are pending
  // and `by_exception` is true, the goodbye gives an exception as the reason. Does nothing in a child that fork() made.
  void end(bool by_exception);
  // Ends all operations, and sends this rank's goodbye to the other members. Blocks until no thread waits for an
  // operation and no other thread is in this function.
  void leave() noexcept;
  std::uint64_t completed() const { return queue_->completed(); }
  // Adds `operations` to completed(): another room has carried them out with the group's carriers.
  void carried_out(std::uint64_t operations) { queue_->carried_out(operations); }

  const trace::FlightRecorder& recorder() const { return *recorder_; }
  group::Carriers carriers() const {
    return {group_, links_, context_.control, progress_thread_, wait_policy_, recorder_, timeline_, generation_};
  }
  // Calls `call` once when this rank leaves the group, without a lock, before the links close. If this rank has already
  // left, calls it at once.
  void when_leaving(std::function<void()> call);

  const group::RankAndSize self;
  const std::vector<int> members;
  const Settings settings;

 private:
  group::OperationQueue& transfers(int from, int to);
  void release();
  bool abandon() ANELLO_REQUIRES(mutex_);
  void leave_transfers() noexcept ANELLO_UNCHECKED;
  void call_at_end(const std::function<void()>& when_leaving);
  void say_goodbye();

  std::shared_ptr<const link::GroupInfo> group_;
  std::shared_ptr<trace::FlightRecorder> recorder_;
  std::shared_ptr<net::DataLinks> links_;
  GroupContext context_;
  std::shared_ptr<group::OperationQueue> queue_;
  const std::shared_ptr<group::ProgressThread> progress_thread_;
  const link::WaitPolicy wait_policy_;
  trace::Timeline* const timeline_;
  const std::uint32_t generation_;
  Mutex leaving_;        // held by the thread that leaves
  mutable Mutex mutex_;  // also held during calls of the context
  std::map<std::pair<int, int>, std::shared_ptr<Impl>> transfers_ ANELLO_GUARDED_BY(mutex_);  // by sender and receiver
  std::function<void()> when_leaving_ ANELLO_GUARDED_BY(mutex_);
  std::atomic<bool> finished_ = false, left_ = false, abandoned_ = false;
};

// Functions of a group for other rooms, but not for users of groups.
class GroupAccess {
 public:
  static const Settings& settings(const Group& group) { return group.impl_->settings; }
  static const trace::FlightRecorder& recorder(const Group& group) { return group.impl_->recorder(); }
  static void end(Group& group, bool by_exception) { group.impl_->end(by_exception); }
  // Like Group::abort(), but the ranks get the error code `code`.
  static void abort(const Group& group, std::string_view reason, ErrorCode code) { group.impl_->abort(reason, code); }
  static group::OperationQueue& queue(const Group& group) { return group.impl_->queue(); }
  static group::RankAndSize self(const Group& group) { return group.impl_->self; }
  static Work start(group::OperationQueue& queue, const group::Call& call) { return Work(group::start(queue, call)); }
  // These functions are described at Group::Impl.
  static group::OperationQueue& sends(const Group& group, int to) { return group.impl_->sends(to); }
  static group::OperationQueue& receives(const Group& group, int from) { return group.impl_->receives(from); }
  static void carried_out(const Group& group, std::uint64_t operations) { group.impl_->carried_out(operations); }
  static group::Carriers carriers(const Group& group) { return group.impl_->carriers(); }
  static void when_leaving(const Group& group, std::function<void()> call) {
    group.impl_->when_leaving(std::move(call));
  }
};

}  // namespace anello
