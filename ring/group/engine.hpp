// Carries out one operation at a time: starts its execution, moves its bytes over the links, waits when nothing can
// move, and does what comes after the last byte. Used by one thread at a time, which may be another one from step to
// step. Knows neither queues nor callers.
#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <vector>

#include "ring/group/ticket.hpp"
#include "ring/link/wait.hpp"
#include "ring/net/control.hpp"
#include "ring/net/data_links.hpp"
#include "ring/run/progress.hpp"
#include "ring/run/step_trace.hpp"

namespace anello {

class Engine {
 public:
  // With an operation that waits; 0 is forever.
  struct Patience {
    std::chrono::milliseconds report{0};  // it is reported, and again after as long
    std::chrono::milliseconds end{0};     // the world ends
  };

  // Errors speak of ranks in the world. Control and links are null in a world of one. `compares`: what an operation
  // leaves the same on all ranks.
  Engine(int rank, Ledger& ledger, Control* control, DataLinks* links, Timeline* timeline, const Patience& patience,
         bool compares);

  // The ticket outlives the operation.
  void start(const Ticket& ticket);

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

  Buffer prescaled(const Ticket& ticket);
  void begin_to_move();
  bool pass();
  int world_rank(int member) const { return ledger_.members()[std::size_t(member)]; }
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
  Ledger& ledger_;
  Control* control_;
  DataLinks* links_;
  Timeline* timeline_;
  Patience patience_;
  bool compares_;
  Results results_;
  const Ticket* ticket_ = nullptr;
  bool moving_ = false;  // its links are there
  std::vector<Link*> link_of_;
  Execution execution_;
  Progress progress_;
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
