// Which ranks keep others waiting: over some seconds a rank slept in operations of one group for most of the time, and
// a member of it, a neighbour on the control plane, hardly slept in operations at all. The group's operations end all
// the same; if none does, the stall report says for whom they wait. Pure: no clock (time is passed in); one thread.
#pragma once
#include <chrono>
#include <cstdint>
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

  // What this rank did in one of its groups since it started.
  struct InGroup {
    std::vector<int> members;
    Time slept{0};
    std::uint64_t completed = 0;  // operations
  };
  using Groups = std::map<std::uint64_t, InGroup>;  // by id

  explicit StragglerDetector(Time period) : period_(period) {}

  // How long the peer has slept in operations since it started, as its heartbeat says.
  void received(int peer, Time slept);
  void remove(int peer);

  bool is_due(Time now) const { return !begun_ || now >= began_ + period_; }
  // At the end of a period, when is_due(): its stragglers. Begins the next one.
  std::vector<Straggler> check(Groups mine, Time now);

 private:
  struct Peer {
    Time at_begin{0}, newest{0};
    bool all_along = false;  // known since the period began
  };
  void begin_period(Groups mine, Time now);

  Time period_, began_{0};
  bool begun_ = false;
  Groups at_begin_;
  std::map<int, Peer> peers_;
};

// The line for people about each straggler. All its neighbours complain, again and again; it is reported at once, and
// then after a minute, two, four, ... as long as they do.
class StragglerReports {
 public:
  using Time = std::chrono::milliseconds;
  static constexpr Time kQuiet{60000};  // before a rank is reported again; without a complaint, it is forgotten

  explicit StragglerReports(const LocalView& view) : view_(view) {}

  // Nothing if the straggler was reported a short time ago.
  std::optional<std::string> report(int complainant, const Straggler& straggler, Time now);

 private:
  struct Reported {
    Time next{0}, quiet{0}, complaint{0};  // the last
  };
  const LocalView& view_;
  std::map<int, Reported> reported_;  // by straggler
};

}  // namespace anello::failure
