// What a Group owns: its own links, queue and recorder. It lasts as long as a handle does, but works no longer than its
// world.
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
  // What a world lends its groups. ControlPlane and link_router are null in a world of one.
  struct Surroundings {
    FlightRecorders* recorders = nullptr;
    ControlPlane* control = nullptr;
    LinkRouter* link_router = nullptr;
  };
  // What it does for them: makes groups of some of their members, by rank in the world, and ends.
  struct Favours {
    std::function<std::shared_ptr<Impl>(std::vector<int> ranks)> group;
    std::function<std::shared_ptr<Impl>(std::uint64_t within, int from, int to)> transfers;
    std::function<void(std::string_view reason)> abort;
  };

  Impl(OperationQueue::GroupConfig config, std::shared_ptr<DataLinks> links, Surroundings surroundings,
       Favours favours);
  ~Impl() { part(); }

  OperationQueue& communicator();  // throws Error{invalid_argument} once it is finished
  std::shared_ptr<Impl> make(std::vector<int> ranks) const;
  void abort(std::string_view reason) const;  // nothing, once the world has ended
  std::optional<Error> failure() const { return communicator_.failure(); }
  // The pair of this group that carries what the one sends to the other.
  OperationQueue& transfers(int from, int to);

  void finish() { finished_ = true; }
  // No operation goes on, nothing is lent any more; the others hear of it.
  void part();
  std::uint64_t completed() const { return communicator_.completed(); }
  const FlightRecorder& recorder() const { return *recorder_; }

  const RankAndSize seat;
  const std::vector<int> members;
  const Settings settings;

 private:
  std::shared_ptr<FlightRecorder> recorder_;
  std::shared_ptr<DataLinks> links_;
  Surroundings surroundings_;
  Favours favours_;
  OperationQueue communicator_;
  std::mutex mutex_;                                                // over what follows
  std::map<std::pair<int, int>, std::shared_ptr<Impl>> transfers_;  // by sender and receiver
  std::atomic<bool> finished_ = false, parted_ = false;
};

// What rooms above this one may read of a group, and its users may not.
class GroupAccess {
 public:
  static const Settings& settings(const Group& group) { return group.impl_->settings; }
  static const FlightRecorder& recorder(const Group& group) { return group.impl_->recorder(); }
};

}  // namespace anello
