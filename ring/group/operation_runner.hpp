// Carries out one operation at a time: starts its execution, moves its bytes over the links, and waits when nothing can
// move. If all ranks can map the tensors, no bytes move over links: the operation is done in the tensors' memory. Used
// by the thread that has the baton, which may change between two calls. Independent of queues and callers.
#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <vector>

#include "ring/control/control_plane.hpp"
#include "ring/group/baton.hpp"
#include "ring/group/direct_collective.hpp"
#include "ring/group/operation.hpp"
#include "ring/link/waiter.hpp"
#include "ring/net/data_links.hpp"
#include "ring/run/driver.hpp"
#include "ring/run/message_execution.hpp"
#include "ring/run/step_trace.hpp"

namespace anello::group {

class OperationRunner {
 public:
  // Time limits for an operation in which nothing moves; 0: without limit.
  struct OperationLimits {
    std::chrono::milliseconds report{0};  // before the first report; later reports after 2, 4, ... times this
    std::chrono::milliseconds end{0};     // then the world ends
    std::chrono::milliseconds ping{0};    // then the awaited peers are pinged, again after each further period
  };

  // `rank`: this process's rank in the group. Errors name world ranks. `control` and `links` are null in a world of
  // one. `compares`: check that results which must be equal on all ranks are equal. Everything passed must outlive
  // this.
  OperationRunner(int rank, const link::GroupInfo& group, trace::FlightRecorder& recorder,
                  control::ControlPlane* control, net::DataLinks* links, trace::Timeline* timeline,
                  const OperationLimits& limits, bool compares);

  // `pending` must outlive the operation.
  void start(const Operation& pending);

  // Moves data and blocks. Returns true when the operation is complete; false when `interrupt` is not 0 or the time
  // `until` has come. Throws the error that ends the world.
  bool advance(link::Waiter& waiter, const std::atomic<int>& interrupt, const Until& until = {});

  // Like advance(), but does not block: moves what can be moved at once.
  enum class Step { stuck, moved, complete };
  Step step();
  // After step() returned `stuck`: adds to the waiter what the operation waits for, and shortens `limit`. False if
  // something can be moved already, or if the world has failed.
  bool prepare_sleep(link::Waiter& waiter, std::chrono::milliseconds& limit);
  void slept(trace::Ticks from);

  // Only while no operation is running: whether the peer has sent something for the next one. Opens the link to it.
  bool has_arrived(int peer);

  // Progress of the operation that was started last, such as "37 % done".
  std::string how_far() const;

  // Set after advance() threw because this rank and a peer disagree about the operation.
  struct Differing {
    NamedSignature mine;
    std::vector<int> peers;  // world ranks
    Signature theirs;        // if it is a different call: the signature of the only peer in `peers`
  };
  const std::optional<Differing>& differing() const { return differing_; }

  // Call when the operation has failed: its tensors may change from now on, so peers are kept from using them.
  void give_up();

 private:
  // The newest operation whose results must be equal on all ranks, and their checksum.
  struct Results {
    std::uint64_t sequence = 0;
    std::uint32_t checksum = 0;  // 0: none yet
  };

  void take_up(double factor);
  void record_begin(trace::Ticks begun);
  bool show_tensors();
  template <class Start>
  void with_data(Start start);
  void start_plan();
  void start_messages();
  void begin_to_move();
  void begin_plan();
  bool pass_direct();
  bool connect_direct();
  Signature signature() const;
  template <class Want>
  void each_wanted(Want want) {
    by_message_ ? messages_.each_wanted(want) : driver_.each_wanted(want);
  }
  template <class Want>
  void each_awaited(Want want);
  std::pair<std::uint64_t, std::uint64_t> progress() const;
  bool done() const {
    if (by_message_) return messages_.done();
    return direct_.active() ? direct_.done() : execution_.done();
  }
  void conclude();
  bool pass();
  template <class Work>
  auto with_world_ranks(Work work);
  int world_rank(int member) const { return group_.members[std::size_t(member)]; }
  bool move(link::Waiter& waiter, const std::atomic<int>& interrupt, const Until& until);
  void sleep(link::Waiter& waiter, const Until& until);
  std::chrono::milliseconds note_stuck();
  void moves_again();
  std::chrono::milliseconds report_stall(std::chrono::milliseconds stuck);
  std::chrono::milliseconds end_world(std::chrono::milliseconds stuck);
  bool want_links(link::Waiter& waiter);
  std::chrono::milliseconds ping_peers(std::chrono::milliseconds stuck);
  bool open_links();
  void check_agreed();
  void finish();
  const run::Scaling* result_scaling() const { return result_scaling_ ? &*result_scaling_ : nullptr; }
  const run::Scaling* input_scaling() const { return input_scaling_ ? &*input_scaling_ : nullptr; }
  void note_end();
  void remember_results();
  Error explain(int peer, const Signature& theirs);
  Error divergence(int peer, std::uint32_t theirs) const;

  int rank_, size_;  // in the group
  const link::GroupInfo& group_;
  trace::FlightRecorder& recorder_;
  control::ControlPlane* control_;
  net::DataLinks* links_;
  trace::Timeline* timeline_;
  OperationLimits limits_;
  bool compares_;
  Results results_;
  const Operation* operation_ = nullptr;
  std::optional<Differing> differing_;
  bool started_ = false;                             // the execution has started
  bool moving_ = false;                              // the links are open
  std::chrono::steady_clock::time_point pinged_at_;  // of any operation, the last time
  std::vector<link::Link*> link_of_;
  run::Buffer input_;  // of this operation, or its prescaled copy if other ranks read it
  run::Execution execution_;
  std::optional<run::Scaling> result_scaling_, input_scaling_;
  run::Driver driver_;
  run::MessageExecution messages_;
  bool by_message_ = false;  // messages_ carries out this operation, in place of execution_ and driver_
  DirectCollective direct_;
  std::array<std::byte, 16> nothing_{};  // sent by an operation without elements
  run::StepTrace trace_;
  bool traced_ = false;  // this operation is recorded in the timeline

  // For this operation: the start of the first sleep since something last moved, and which messages about it the
  // control plane has been sent.
  std::optional<std::chrono::steady_clock::time_point> stuck_since_;
  bool sent_waiting_ = false, sent_stalled_ = false, sent_overdue_ = false;
  std::chrono::milliseconds next_report_{0};
};

}  // namespace anello::group
