// Carries out one operation at a time: starts its execution, moves its bytes over the links, waits when nothing can
// move, and does what comes after the last byte. Used by one thread at a time, which may be another one from step to
// step. Knows neither queues nor callers.
#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <vector>

#include "ring/group/pending_operation.hpp"
#include "ring/link/waiter.hpp"
#include "ring/net/control_plane.hpp"
#include "ring/net/data_links.hpp"
#include "ring/run/driver.hpp"
#include "ring/run/step_trace.hpp"

namespace anello {

class OperationRunner {
 public:
  // With an operation that waits; 0 is forever.
  struct OperationLimits {
    std::chrono::milliseconds report{0};  // it is reported, and again after as long
    std::chrono::milliseconds end{0};     // the world ends
  };

  // Errors speak of ranks in the world. ControlPlane and links are null in a world of one. `compares`: what an
  // operation leaves the same on all ranks.
  OperationRunner(int rank, FlightRecorder& recorder, ControlPlane* control, DataLinks* links, Timeline* timeline,
                  const OperationLimits& patience, bool compares);

  // The pending operation outlives the operation.
  void start(const PendingOperation& pending);

  // Goes on with it. True when it is complete, false as soon as `interrupt` is not 0. Throws what ends the world.
  bool advance(Waiter& waiter, const std::atomic<int>& interrupt);

  // "37 % done", of what was started last.
  std::string how_far() const;

 private:
  // What the newest operation that leaves the same on all ranks has left here.
  struct Results {
    std::uint64_t sequence = 0;
    std::uint32_t checksum = 0;  // 0: none yet
  };

  Buffer prescaled(const PendingOperation& pending);
  void begin_to_move();
  bool pass();
  int world_rank(int member) const { return recorder_.members()[std::size_t(member)]; }
  bool move(Waiter& waiter, const std::atomic<int>& interrupt);
  void sleep(Waiter& waiter);
  std::chrono::milliseconds report_stall(std::chrono::milliseconds slept);
  std::chrono::milliseconds end_world(std::chrono::milliseconds slept);
  bool may_sleep(Waiter& waiter);
  bool links_ready();
  void check_agreed() const;
  void finish();
  void note_end();
  void remember_results();
  Error explain(int peer, const Signature& theirs) const;
  Error divergence(int peer, std::uint32_t theirs) const;

  int rank_, size_;  // in the group
  FlightRecorder& recorder_;
  ControlPlane* control_;
  DataLinks* links_;
  Timeline* timeline_;
  OperationLimits patience_;
  bool compares_;
  Results results_;
  const PendingOperation* operation_ = nullptr;
  bool moving_ = false;  // its links are there
  std::vector<Link*> link_of_;
  Execution execution_;
  Driver progress_;
  std::vector<std::byte> prescaled_;
  std::array<std::byte, 16> nothing_{};  // what moves when there are no elements to move
  StepTrace trace_;
  bool traced_ = false;  // the operation

  // Of the operation's sleeps: when the first began, and whether the others know that it does not get on.
  std::optional<std::chrono::steady_clock::time_point> sleeping_since_;
  bool told_ = false, overdue_ = false;
  int stalls_ = 0;  // reports of this operation
};

}  // namespace anello
