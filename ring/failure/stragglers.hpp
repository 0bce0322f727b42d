// Detects ranks that keep other ranks waiting: within a period of some seconds, a rank slept most of the time in
// operations of one group, while another member of that group, its neighbour on the control plane, hardly slept in
// operations at all. Considers only groups whose operations complete; for other groups, the stall report names the
// missing ranks. Pure: no clock (time is passed in); one thread.
#pragma once
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ring/failure/local_view.hpp"

namespace anello::failure {

// A rank that keeps another rank waiting, and the time that each of the two slept in operations within the period.
struct Straggler {
  int rank = -1;
  std::chrono::milliseconds own{0}, theirs{0}, period{0};
};

class StragglerDetector {
 public:
  using Time = std::chrono::milliseconds;  // time since an arbitrary fixed point, or a duration

  // This rank's totals in one of its groups since the group began.
  struct InGroup {
    std::vector<int> members;
    Time slept{0};
    std::uint64_t completed = 0;  // number of operations
  };
  using Groups = std::map<std::uint64_t, InGroup>;  // by id

  explicit StragglerDetector(Time period) : period_(period) {}

  // `slept`: the total time that the peer has slept in operations since it started; it is in the peer's heartbeats.
  void received(int peer, Time slept);
  void remove(int peer);

  bool is_due(Time now) const { return !begun_ || now >= began_ + period_; }
  // Call at the end of a period, when is_due() is true. Returns the stragglers of the period, and begins the next
  // period.
  std::vector<Straggler> check(Groups mine, Time now);

 private:
  struct Peer {
    Time at_begin{0}, newest{0};
    bool all_along = false;  // true if `newest` was received before the period began
  };
  void begin_period(Groups mine, Time now);

  Time period_, began_{0};
  bool begun_ = false;
  Groups at_begin_;
  std::map<int, Peer> peers_;
};

// Makes the message about each straggler. All neighbours of a straggler complain again and again. So the straggler is
// reported at the first complaint, and then after one minute, two, four, ... as long as the complaints continue.
class StragglerReports {
 public:
  using Time = std::chrono::milliseconds;
  // Minimum time between two reports. After this time without a complaint, the next complaint is reported at once.
  static constexpr Time kQuiet{60000};

  explicit StragglerReports(const LocalView& view) : view_(view) {}

  // Empty if the straggler was reported a short time ago.
  std::optional<std::string> report(int complainant, const Straggler& straggler, Time now);

 private:
  struct Reported {
    Time next{0}, quiet{0}, complaint{0};  // `complaint`: time of the last complaint
  };
  const LocalView& view_;
  std::map<int, Reported> reported_;  // by straggler
};

}  // namespace anello::failure
