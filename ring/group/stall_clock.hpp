// Decides when a waiting thread must report, ping or end because nothing moves. Used by the thread that has the baton.
// Reads the clock, but only while nothing moves.
#pragma once
#include <chrono>
#include <optional>

namespace anello::group {

// The times at which a wait is reported: `first`, then 2, 4, ... times `first`.
class ReportTimes {
 public:
  using Time = std::chrono::milliseconds;

  // Returns the next of these times if it has come, and then skips all times up to `waited`. If `first` is 0, there are
  // no reports.
  std::optional<Time> due(Time first, Time waited);
  Time next() const { return next_; }  // valid after due()

 private:
  Time next_{0};
};

class StallClock {
 public:
  using Time = std::chrono::milliseconds;

  // A limit of 0 means: no limit.
  struct Limits {
    Time report{0};  // time until the first report
    Time end{0};     // time until the world ends
    Time ping{0};    // after each such period without movement, the awaited peers are pinged
  };
  explicit StallClock(const Limits& limits) : limits_(limits) {}
  const Limits& limits() const { return limits_; }

  // Call when the thread begins to wait for something else.
  void begin() {
    since_.reset();
    reports_ = {};
    asked_ = ended_ = spoke_ = false;
  }
  // Call when something has moved. Returns true if a question, a report or an end was due after the last movement. That
  // question, report or end is now outdated.
  bool moved() { return since_ && moves_again(); }

  struct Due {
    Time stuck{0};               // time since the first look() after the last movement
    bool question = false;       // nothing has moved for a while, so ask the other ranks why; set once
    std::optional<Time> report;  // report that nothing has moved for this time
    bool end = false;            // the limit has passed; set once
    bool pings = false;
    Time sleep{0};  // time until look() must be called again
  };
  // Call when nothing moves.
  Due look();

  static constexpr Time kQuestionAfter{200};
  static constexpr Time kLongSleep{1000};  // maximum time between two looks

 private:
  using Clock = std::chrono::steady_clock;
  bool moves_again();
  Time until_end(Due& due);
  Time until_ping(Due& due);

  Limits limits_;
  ReportTimes reports_;
  std::optional<Clock::time_point> since_;
  Clock::time_point pinged_at_;  // begin() does not reset it: the ping may belong to an earlier wait
  bool asked_ = false, ended_ = false, spoke_ = false;
};

}  // namespace anello::group
