// The times at which a thread that waits, because nothing moves, must do something for the other ranks. Used by the
// thread that has the baton. Reads the clock, and only while nothing moves.
#pragma once
#include <chrono>
#include <optional>

namespace anello::group {

// The times of reports about something that waits: `first`, then 2, 4, ... times that.
class ReportTimes {
 public:
  using Time = std::chrono::milliseconds;

  // Returns the first of these times that has come and was not returned before. `first` 0: there are none.
  std::optional<Time> due(Time first, Time waited);
  Time next() const { return next_; }  // after due()

 private:
  Time next_{0};
};

class StallClock {
 public:
  using Time = std::chrono::milliseconds;

  // 0: without limit.
  struct Limits {
    Time report{0};  // before the first report
    Time end{0};     // then the world ends
    Time ping{0};    // then the awaited peers are pinged, again after each further period
  };
  explicit StallClock(const Limits& limits) : limits_(limits) {}
  const Limits& limits() const { return limits_; }

  // Something else is waited for now.
  void begin() {
    since_.reset();
    reports_ = {};
    asked_ = ended_ = spoke_ = false;
  }
  // Something has moved. True if a question, a report or an end was due before: it does not hold any more.
  bool moved() { return since_ && moves_again(); }

  struct Due {
    Time stuck{0};               // time since the first look() that found nothing moving
    bool question = false;       // nothing has moved for a while: other ranks should be asked why, once
    std::optional<Time> report;  // nothing has moved for this time
    bool end = false;            // the limit has passed, for the first time
    bool pings = false;
    Time sleep{0};  // time until the next look
  };
  // Call when nothing moves.
  Due look();

  static constexpr Time kQuestionAfter{200};
  static constexpr Time kLongSleep{1000};  // if nothing is due before

 private:
  using Clock = std::chrono::steady_clock;
  bool moves_again();
  Time until_end(Due& due);
  Time until_ping(Due& due);

  Limits limits_;
  ReportTimes reports_;
  std::optional<Clock::time_point> since_;
  Clock::time_point pinged_at_;  // the last time, whatever was waited for
  bool asked_ = false, ended_ = false, spoke_ = false;
};

}  // namespace anello::group
