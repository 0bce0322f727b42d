#include "ring/agenda/late_operations.hpp"

#include "ring/base/log.hpp"
#include "ring/base/text.hpp"

namespace anello::agenda {

using std::chrono::milliseconds;

namespace {

// Returns how long the operation has waited for other ranks. For a join, returns the time since something last moved,
// because a join must wait as long as other ranks have data.
milliseconds age(const NamedOperation& operation, milliseconds stuck) {
  if (operation.verb() == Verb::join) return stuck;
  return std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - operation.submitted);
}

}  // namespace

// Rank 0 decides, so rank 0 has the list of the missing ranks. The other ranks time out later, so that rank 0's message
// comes first.
LateOperations::LateOperations(int rank, const Settings& settings, control::ControlPlane* control)
    : report_after_(settings.stall_time),
      limit_(settings.operation_limit),
      delay_(rank == 0 ? milliseconds(0) : milliseconds(2000)),
      control_(control) {}

void LateOperations::look(const Undecided& undecided, milliseconds stuck, const Agenda& agenda) const {
  NamedOperation* oldest = nullptr;
  milliseconds waited{0};
  int late = 0;
  for (const auto& [key, operation] : undecided) {
    const milliseconds its = age(*operation, stuck);
    late += its >= report_after_;
    if (oldest && its <= waited) continue;
    oldest = operation.get();
    waited = its;
  }
  if (!oldest) return;
  end_if_overdue(*oldest, waited, agenda);
  if (!oldest->reports.due(report_after_, waited)) return;
  const int others = late - 1;
  const std::string too = text("; ", others, others == 1 ? " other operation waits too" : " other operations wait too");
  log(Severity::warning,
      text("no progress for ", waited.count() / 1000, " s: ", agenda.waits_for(oldest->key()), others > 0 ? too : ""));
}

void LateOperations::end_if_overdue(const NamedOperation& operation, milliseconds age, const Agenda& agenda) const {
  if (limit_.count() == 0 || age < limit_ + delay_) return;
  control_->propose({ErrorCode::timed_out, -1,
                     text("no progress for ", age.count() / 1000, " s: ", agenda.waits_for(operation.key()),
                          " (ANELLO_OPERATION_LIMIT)")});
}

}  // namespace anello::agenda
