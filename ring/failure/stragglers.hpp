// Who keeps the others waiting: over some seconds a rank waits in operations most of the time, and one of its
// neighbours on the control plane hardly at all. Pure: no clock (time is passed in); one thread.
#pragma once
#include <chrono>
#include <map>
#include <vector>

namespace anello {

// A rank that keeps another one waiting: how long each waited in operations within the period.
struct Straggler {
  int rank = -1;
  std::chrono::milliseconds own{0}, theirs{0}, period{0};
};

class StragglerDetector {
 public:
  using Time = std::chrono::milliseconds;  // since any fixed point, or a duration

  explicit StragglerDetector(Time period) : period_(period) {}

  // How long the peer has waited in operations since it began.
  void told(int peer, Time waited);
  void left(int peer);

  // How long this rank has; to be called again and again. Something at the end of a period only.
  std::vector<Straggler> look(Time waited, Time now);

 private:
  struct Waits {
    Time at_begin{0}, newest{0};
    bool all_along = false;  // heard since the period began
  };
  void begin(Time waited, Time now);

  Time period_, began_{0}, own_at_begin_{0};
  bool begun_ = false;
  std::map<int, Waits> peers_;
};

}  // namespace anello
