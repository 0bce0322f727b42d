// What a Group owns: its links, its queue and its recorder. Its world and its handles share it; calls fail once its
// world has ended. Any thread.
#pragma once
#include <anello/group.hpp>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "ring/group/checks.hpp"
#include "ring/group/operation_queue.hpp"
#include "ring/net/link_router.hpp"

namespace anello {
namespace group {

// What carries a group's bytes, for a room that sends something else than operations, or moves them in its own way; the
// group's own queue must then have none. Valid until the group is left.
struct Carriers {
  std::shared_ptr<const link::GroupInfo> info;
  std::shared_ptr<net::DataLinks> links;  // null in a world of one, like the next
  net::ControlPlane* control = nullptr;
  std::shared_ptr<ProgressThread> progress_thread;
  link::WaitPolicy wait_policy;
  std::shared_ptr<trace::FlightRecorder> recorder;
  trace::Timeline* timeline = nullptr;
  std::uint32_t generation = 0;
};

}  // namespace group

class Group::Impl {
 public:
  // What a world gives its groups: services, and calls back into the world. Valid until leave() has returned; the world
  // calls that for each group before it ends.
  struct GroupContext {
    trace::FlightRecorders* recorders = nullptr;
    net::ControlPlane* control = nullptr;    // null in a world of one
    net::LinkRouter* link_router = nullptr;  // null in a world of one
    // A group of ranks of the world, made by group `within`.
    std::function<std::shared_ptr<Impl>(std::uint64_t within, std::vector<int> ranks)> make_group;
    // The group that carries what rank `from` of the world sends to rank `to` in group `within`.
    std::function<std::shared_ptr<Impl>(std::uint64_t within, int from, int to)> make_transfers;
    std::function<void(const Impl&)> forget;  // a group that has left
    std::function<void(std::string_view reason, ErrorCode code)> abort;
  };

  Impl(group::OperationQueue::GroupConfig config, std::shared_ptr<net::DataLinks> links, GroupContext context);
  ~Impl() { leave(); }
  // A handle of the group. When the last one is gone, the group leaves as soon as its operations are done; until then
  // its world has it.
  static std::shared_ptr<Impl> handle(std::shared_ptr<Impl> group);
  bool idle() const;     // no operation is pending, also between two members
  bool is_over() const;  // it has no handle, and is idle

  group::OperationQueue& queue();  // throws Error{invalid_argument} after finish()
  std::shared_ptr<Impl> make(std::vector<int> ranks) const;
  // No effect once the world has ended.
  void abort(std::string_view reason, ErrorCode code = ErrorCode::aborted) const;
  std::optional<Error> failure() const { return queue_->failure(); }
  // The queue of what this rank sends to member `to`, or receives from member `from`. Throws Error{invalid_argument} if
  // that is no other member.
  group::OperationQueue& sends(int to);
  group::OperationQueue& receives(int from, std::string_view call = "recv");

  void finish() { finished_ = true; }
  // As leave(); if operations are pending and `by_exception`, the other members are sent that too. For a group whose
  // operations use memory that its owner is about to give back. No effect in a child that fork() made.
  void end(bool by_exception);
  // Ends all operations, and sends the other members that this rank has left the group. Blocks until no thread waits
  // for an operation, and while another thread leaves.
  void leave() noexcept;
  std::uint64_t completed() const { return queue_->completed(); }
  // Another room has carried out that number of operations with the group's carriers.
  void carried_out(std::uint64_t operations) { queue_->carried_out(operations); }

  const trace::FlightRecorder& recorder() const { return *recorder_; }
  group::Carriers carriers() const {
    return {group_, links_, context_.control, progress_thread_, wait_policy_, recorder_, timeline_, generation_};
  }
  // Called once, without a lock, when this rank leaves the group and before the links close; at once if it has left.
  void when_leaving(std::function<void()> call);

  const group::RankAndSize self;
  const std::vector<int> members;
  const Settings settings;

 private:
  group::OperationQueue& transfers(int from, int to);
  void release();
  bool abandon();
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
  std::mutex leaving_;                                              // held by the thread that leaves
  mutable std::mutex mutex_;                                        // guards the next two, and calls of the context
  std::map<std::pair<int, int>, std::shared_ptr<Impl>> transfers_;  // by sender and receiver
  std::function<void()> when_leaving_;
  std::atomic<bool> finished_ = false, left_ = false, abandoned_ = false;
};

// What rooms above this one may read of a group, and its users may not.
class GroupAccess {
 public:
  static const Settings& settings(const Group& group) { return group.impl_->settings; }
  static const trace::FlightRecorder& recorder(const Group& group) { return group.impl_->recorder(); }
  static void end(Group& group, bool by_exception) { group.impl_->end(by_exception); }
  // As Group::abort(); ranks get the error with this code.
  static void abort(const Group& group, std::string_view reason, ErrorCode code) { group.impl_->abort(reason, code); }
  static group::OperationQueue& queue(const Group& group) { return group.impl_->queue(); }
  // See Group::Impl.
  static group::OperationQueue& sends(const Group& group, int to) { return group.impl_->sends(to); }
  static group::OperationQueue& receives(const Group& group, int from) { return group.impl_->receives(from); }
  static void carried_out(const Group& group, std::uint64_t operations) { group.impl_->carried_out(operations); }
  static group::Carriers carriers(const Group& group) { return group.impl_->carriers(); }
  static void when_leaving(const Group& group, std::function<void()> call) {
    group.impl_->when_leaving(std::move(call));
  }
};

}  // namespace anello
