// The work of a scheduler while nothing moves: it asks for departures, reports which operation waits for which rank,
// and ends the world after the limit.
#include <algorithm>

#include "ring/agenda/scheduler.hpp"
#include "ring/base/log.hpp"
#include "ring/base/text.hpp"

namespace anello::agenda {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

constexpr milliseconds kLongSleep{1000};

}  // namespace

// Call when nothing moves while something waits. The control plane notices a rank that has left in good order only if
// it is asked. Returns for how long the thread may sleep before it checks again.
milliseconds Scheduler::note_stuck() {
  const auto now = steady_clock::now();
  if (!stuck_since_) stuck_since_ = now;
  const auto stuck = std::chrono::duration_cast<milliseconds>(now - *stuck_since_);
  if (!carriers_.control) return kDiagnosisAfter;
  report_late();
  if (stuck < kDiagnosisAfter) return kDiagnosisAfter;
  const std::string here = undecided_.empty() ? "passes messages on" : "waits in " + undecided_.begin()->first;
  carriers_.control->needs_messages(carriers_.info->id, decided_, here);
  if (silence_limit_.count() > 0 && stuck > silence_limit_ / 2)
    for (const int neighbour : agenda_.neighbours()) carriers_.control->ping(members_[std::size_t(neighbour)]);
  return kLongSleep;
}

// How long the operation has waited for other ranks. The age of a join counts from the last move, because a join waits
// as long as other ranks have data.
milliseconds Scheduler::age(const NamedOperation& operation) const {
  const bool is_join = operation.verb() == Verb::join;
  return std::chrono::duration_cast<milliseconds>(steady_clock::now() -
                                                  (is_join ? *stuck_since_ : operation.submitted));
}

// Reports late operations; other operations may go on meanwhile.
void Scheduler::report_late() {
  NamedOperation* oldest = nullptr;
  int late = 0;
  for (const auto& [key, operation] : undecided_) {
    late += age(*operation) >= report_after_;
    if (!oldest || age(*operation) > age(*oldest)) oldest = operation.get();
  }
  if (!oldest) return;
  end_if_overdue(*oldest);
  const milliseconds waited = age(*oldest);
  if (report_after_.count() == 0 || waited < std::max(report_after_, 2 * oldest->reported)) return;
  oldest->reported = waited;
  const int others = late - 1;
  const std::string too = text("; ", others, others == 1 ? " other operation waits too" : " other operations wait too");
  log(Severity::warning,
      text("no progress for ", waited.count() / 1000, " s: ", agenda_.waits_for(oldest->key()), others > 0 ? too : ""));
}

// Rank 0 decides, so it has the list of the missing ranks. The other ranks propose their timeout later, so that rank
// 0's message comes first.
void Scheduler::end_if_overdue(const NamedOperation& operation) {
  const milliseconds limit = operation_limit_ + (self_.rank == 0 ? milliseconds(0) : 2 * kLongSleep);
  const milliseconds waited = age(operation);
  if (operation_limit_.count() == 0 || waited < limit) return;
  carriers_.control->propose({ErrorCode::timed_out, -1,
                              text("no progress for ", waited.count() / 1000,
                                   " s: ", agenda_.waits_for(operation.key()), " (ANELLO_OPERATION_LIMIT)")});
}

}  // namespace anello::agenda
