// What a Group owns: its links, its queue and its recorder. It lives as long as a handle of it, but calls fail once its
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

class Group::Impl {
 public:
  // What a world gives its groups: services, and calls back into the world. Valid until leave() has returned; the world
  // calls that for each group before it ends.
  struct GroupContext {
    trace::FlightRecorders* recorders = nullptr;
    net::ControlPlane* control = nullptr;                                     // null in a world of one
    net::LinkRouter* link_router = nullptr;                                   // null in a world of one
    std::function<std::shared_ptr<Impl>(std::vector<int> ranks)> make_group;  // of ranks of the world
    // The group that carries what rank `from` of the world sends to rank `to` in group `within`.
    std::function<std::shared_ptr<Impl>(std::uint64_t within, int from, int to)> make_transfers;
    // Keeps a group without handles until its operations are done, or the world ends.
    std::function<void(std::unique_ptr<Impl>)> keep;
    std::function<void(std::string_view reason)> abort;
  };

  Impl(group::OperationQueue::GroupConfig config, std::shared_ptr<net::DataLinks> links, GroupContext context);
  ~Impl() { leave(); }
  // The end of the last handle.
  static void release(Impl* group);
  bool idle() const;  // no operation is pending, also between two members

  group::OperationQueue& queue();  // throws Error{invalid_argument} after finish()
  std::shared_ptr<Impl> make(std::vector<int> ranks) const;
  void abort(std::string_view reason) const;  // no effect once the world has ended
  std::optional<Error> failure() const { return queue_->failure(); }
  // The queue of what member `from` sends to member `to`.
  group::OperationQueue& transfers(int from, int to);

  void finish() { finished_ = true; }
  // Ends all operations, and sends the other members that this rank has left the group. Blocks until no thread waits
  // for an operation.
  void leave();
  std::uint64_t completed() const { return queue_->completed(); }
  const trace::FlightRecorder& recorder() const { return *recorder_; }

  const group::RankAndSize self;
  const std::vector<int> members;
  const Settings settings;

 private:
  bool abandon();

  std::shared_ptr<const link::GroupInfo> group_;
  std::shared_ptr<trace::FlightRecorder> recorder_;
  std::shared_ptr<net::DataLinks> links_;
  GroupContext context_;
  std::shared_ptr<group::OperationQueue> queue_;
  mutable std::mutex mutex_;                                        // guards the next line, and calls of the context
  std::map<std::pair<int, int>, std::shared_ptr<Impl>> transfers_;  // by sender and receiver
  std::atomic<bool> finished_ = false, left_ = false;
};

// What rooms above this one may read of a group, and its users may not.
class GroupAccess {
 public:
  static const Settings& settings(const Group& group) { return group.impl_->settings; }
  static const trace::FlightRecorder& recorder(const Group& group) { return group.impl_->recorder(); }
};

}  // namespace anello
