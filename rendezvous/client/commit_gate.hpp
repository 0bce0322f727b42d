// Decides at which commit a process of an elastic job leaves its world for a planned change. A process that was asked
// for its commits makes at most one more before it receives the boundary. The boundary is one commit after the highest
// answer, so no process can have passed it. Nothing is sent while no change is planned. Pure.
#pragma once
#include <cstdint>
#include <optional>

namespace anello::rendezvous {

class CommitGate {
 public:
  enum class Step {
    go_on,
    hold,  // the process waits until the server announces the boundary
    end    // the world ends for this process at this commit
  };

  void enter_world() { *this = {}; }
  void asked(std::uint64_t commits) { asked_at_ = commits; }
  void announced(std::uint64_t boundary) { boundary_ = boundary; }
  // Call this when the connection with the server has ended, so that the server can announce no boundary any more.
  void lost_server() { enter_world(); }

  bool change_is_planned() const { return asked_at_ || boundary_; }
  Step after(std::uint64_t commits) const {
    if (boundary_) return commits >= *boundary_ ? Step::end : Step::go_on;
    return asked_at_ && commits > *asked_at_ ? Step::hold : Step::go_on;
  }

 private:
  std::optional<std::uint64_t> asked_at_, boundary_;
};

}  // namespace anello::rendezvous
