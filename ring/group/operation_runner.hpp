// Carries out one operation at a time: chooses a carrier for it, opens links, lets the carrier move data, and waits
// when nothing can move. Used by the thread that has the baton, which may be a different thread in each call. Does not
// depend on queues and callers.
#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "ring/control/control_plane.hpp"
#include "ring/group/agreement.hpp"
#include "ring/group/baton.hpp"
#include "ring/group/direct_collective.hpp"
#include "ring/group/operation.hpp"
#include "ring/group/staged_allreduce.hpp"
#include "ring/group/stall_clock.hpp"
#include "ring/link/waiter.hpp"
#include "ring/net/data_links.hpp"
#include "ring/run/message_execution.hpp"
#include "ring/run/step_trace.hpp"
#include "ring/run/streaming.hpp"

namespace anello::group {

class OperationRunner {
 public:
  // `rank`: this process's rank in the group. Errors name world ranks. `control` and `links` are null in a world of
  // one. `compares`: true if results that must be equal on all ranks are compared. All arguments must outlive this
  // object.
  OperationRunner(int rank, const link::GroupInfo& group, trace::FlightRecorder& recorder,
                  control::ControlPlane* control, net::DataLinks* links, trace::Timeline* timeline,
                  const StallClock::Limits& limits, bool compares);

  // `pending` must outlive the operation.
  void start(const Operation& pending);

  // Moves data, and blocks while nothing can move. Returns true when the operation is complete, and false when
  // `interrupt` is not 0 or the time `until` has come. Throws the error that ends the world.
  bool advance(link::Waiter& waiter, const std::atomic<int>& interrupt, const Until& until = {});

  // Like advance(), but does not block: moves the data that can be moved at once.
  enum class Step { stuck, moved, complete };
  Step step();
  // Call after step() returned `stuck`. Adds to the waiter the events for which the operation waits, and shortens
  // `limit`. False if something can move already, or if the world has failed.
  bool prepare_sleep(link::Waiter& waiter, std::chrono::milliseconds& limit);
  void slept(trace::Ticks from);

  // Returns true if the peer has sent something for the next operation. Opens the link to the peer. Call only while no
  // operation is running.
  bool has_arrived(int peer);

  // Returns the progress of the operation that was started last, such as "37 % done".
  std::string how_far() const;
  // Set after advance() threw because this rank and a peer disagree about the operation.
  const std::optional<Agreement::Differing>& differing() const { return agreement_.differing(); }

  // Call when the operation has failed. The caller may change its tensors afterwards, so peers are kept from using
  // them.
  void give_up();

 private:
  void take_up(double factor);
  void record_begin(trace::Ticks begun);
  run::Carrier& choose();
  bool show_tensors();
  bool can_stage();
  template <class Use>
  void each_peer(Use use) const;
  bool open_links();
  void begin_to_move();
  void stream_instead();
  bool pass();
  bool has_failed() const { return control_ && control_->failed(); }
  bool sleep(link::Waiter& waiter, const Until& until);
  std::chrono::milliseconds note_stuck();
  std::vector<int> awaited() const;
  void conclude();
  template <class Work>
  auto with_world_ranks(Work work);
  int world_rank(int member) const { return group_.members[std::size_t(member)]; }

  int rank_, size_;  // this process's rank in the group, and the group's size
  const link::GroupInfo& group_;
  trace::FlightRecorder& recorder_;
  control::ControlPlane* control_;
  net::DataLinks* links_;
  trace::Timeline* timeline_;
  Agreement agreement_;
  StallClock stall_;
  run::StepTrace trace_;
  std::vector<link::Link*> link_of_;  // by rank
  std::array<std::byte, 16> no_data_{};
  run::Buffer nothing_{no_data_.data(), 1};  // an operation without elements sends this

  run::Streaming streaming_;
  run::MessageExecution messages_;
  Posts posts_;
  DirectCollective direct_;
  StagedAllreduce staged_;

  const Operation* operation_ = nullptr;
  run::Load load_;
  run::Carrier* carrier_ = nullptr;  // one of the four carriers
  bool moving_ = false;              // the links are open, and the carrier has begun
};

}  // namespace anello::group
