// What a scheduler does while nothing moves: it asks for departures, reports what waits for which rank, and ends the
// world after the limit.
#include "ring/agenda/scheduler.hpp"
#include "ring/base/log.hpp"
#include "ring/base/text.hpp"

namespace anello::agenda {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

constexpr milliseconds kLongSleep{1000};

}  // namespace

// Nothing moves while something waits. A rank that has left in good order is noticed by the control plane only if it is
// asked. Returns for how long the thread may sleep before it looks again.
milliseconds Scheduler::note_stuck() {
  const auto now = steady_clock::now();
  if (!stuck_since_) {
    stuck_since_ = now;
    next_report_ = report_after_;
  }
  const auto stuck = std::chrono::duration_cast<milliseconds>(now - *stuck_since_);
  if (stuck < kDiagnosisAfter || !carriers_.control) return kDiagnosisAfter;
  const std::string here = undecided_.empty() ? "passes messages on" : "waits in " + undecided_.begin()->first;
  carriers_.control->needs_messages(carriers_.info->id, here);
  if (silence_limit_.count() > 0 && stuck > silence_limit_ / 2)
    for (const int neighbour : agenda_.neighbours()) carriers_.control->ping(members_[std::size_t(neighbour)]);
  if (report_after_.count() > 0 && stuck >= next_report_ && !undecided_.empty()) {
    const std::size_t others = undecided_.size() - 1;
    const std::string too =
        text("; ", others, others == 1 ? " other operation waits too" : " other operations wait too");
    log(Severity::warning, text("no progress for ", stuck.count() / 1000,
                                " s: ", agenda_.waits_for(undecided_.begin()->first), others > 0 ? too : ""));
    while (next_report_ <= stuck) next_report_ *= 2;
  }
  end_if_overdue(stuck);
  return kLongSleep;
}

// The rank that decides knows which ranks are missing, so the others leave it the first word.
void Scheduler::end_if_overdue(milliseconds stuck) {
  const milliseconds limit = operation_limit_ + (self_.rank == 0 ? milliseconds(0) : 2 * kLongSleep);
  if (operation_limit_.count() == 0 || stuck < limit || undecided_.empty()) return;
  carriers_.control->propose({ErrorCode::timed_out, -1,
                              text("no progress for ", stuck.count() / 1000,
                                   " s: ", agenda_.waits_for(undecided_.begin()->first), " (ANELLO_OPERATION_LIMIT)")});
}

}  // namespace anello::agenda
