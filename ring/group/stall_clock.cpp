#include "ring/group/stall_clock.hpp"

#include <algorithm>
#include <utility>

namespace anello::group {

std::optional<ReportTimes::Time> ReportTimes::due(Time first, Time waited) {
  next_ = std::max(next_, first);
  if (first.count() == 0 || waited < next_) return std::nullopt;
  const Time due = next_;
  while (next_ <= waited) next_ *= 2;
  return due;
}

bool StallClock::moves_again() {
  since_.reset();
  asked_ = ended_ = false;
  return std::exchange(spoke_, false);
}

StallClock::Due StallClock::look() {
  const auto now = Clock::now();
  if (!since_) since_ = now;
  Due due{.stuck = std::chrono::duration_cast<Time>(now - *since_)};
  due.question = due.stuck >= kQuestionAfter && !std::exchange(asked_, true);
  due.sleep = asked_ ? kLongSleep : kQuestionAfter - due.stuck;
  due.report = reports_.due(limits_.report, due.stuck);
  if (limits_.report.count() > 0) due.sleep = std::min(due.sleep, reports_.next() - due.stuck);
  if (limits_.end.count() > 0) due.sleep = std::min(due.sleep, until_end(due));
  if (limits_.ping.count() > 0) due.sleep = std::min(due.sleep, until_ping(due));
  spoke_ |= due.question || due.report || due.end;
  return due;
}

StallClock::Time StallClock::until_end(Due& due) {
  if (due.stuck < limits_.end) return limits_.end - due.stuck;
  due.end = !std::exchange(ended_, true);
  return kLongSleep;
}

StallClock::Time StallClock::until_ping(Due& due) {
  const auto now = Clock::now();
  const auto since = std::chrono::floor<Time>(now - pinged_at_);
  if (const Time left = limits_.ping - std::min(due.stuck, since); left.count() > 0) return left;
  pinged_at_ = now;
  due.pings = true;
  return limits_.ping;
}

}  // namespace anello::group
