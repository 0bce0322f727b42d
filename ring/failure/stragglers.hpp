// Which ranks keep others waiting: over some seconds a rank slept in operations for most of the time, and one of its
// neighbours on the control plane hardly at all. Pure: no clock (time is passed in); one thread.
#pragma once
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ring/failure/local_view.hpp"

namespace anello::failure {

// A rank that keeps another one waiting: how long each slept in operations within the period.
struct Straggler {
  int rank = -1;
  std::chrono::milliseconds own{0}, theirs{0}, period{0};
};

class StragglerDetector {
 public:
  using Time = std::chrono::milliseconds;  // since any fixed point, or a duration

  explicit StragglerDetector(Time period) : period_(period) {}

  // How long the peer has slept in operations since it started, as its heartbeat says.
  void received(int peer, Time slept);
  void remove(int peer);

  // `slept`: the same of this rank. Call it often; it returns stragglers only at the end of a period.
  std::vector<Straggler> check(Time slept, Time now);

 private:
  struct Peer {
    Time at_begin{0}, newest{0};
    bool all_along = false;  // known since the period began
  };
  void begin_period(Time slept, Time now);

  Time period_, began_{0}, own_at_begin_{0};
  bool begun_ = false;
  std::map<int, Peer> peers_;
};

// The line for people about each straggler. All its neighbours complain, again and again; one line in a minute is
// enough.
class StragglerReports {
 public:
  using Time = std::chrono::milliseconds;
  static constexpr Time kQuiet{60000};  // before a rank is reported again

  explicit StragglerReports(const LocalView& view) : view_(view) {}

  // Nothing if the straggler was reported within kQuiet.
  std::optional<std::string> report(int complainant, const Straggler& straggler, Time now);

 private:
  const LocalView& view_;
  std::map<int, Time> reported_;  // by straggler
};

}  // namespace anello::failure
