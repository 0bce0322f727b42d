// Rank 0 decides: which operations are held back, and which are carried out as one list.
#include <utility>

#include "ring/agenda/agenda.hpp"

namespace anello::agenda {
namespace {

// Maximum size of a list.
constexpr std::uint64_t kMaxListBytes = 256 << 10;

}  // namespace

void Agenda::decide_held() {
  holds_ = false;
  resume();
}

void Agenda::sort_into_lists() {
  auto& [reports, sorted, lists, bytes] = complete_;
  for (; sorted < reports.size(); sorted++) {
    Complete& next = reports[sorted];
    const Item& report = next.report;
    next.suits_list = suits_list_ && !report.refusal && report.parties.empty() && suits_list_(described(report));
    const std::uint64_t its = next.suits_list ? bytes_of(described(report)) : 0;
    const Complete* const before = sorted > 0 ? &reports[sorted - 1] : nullptr;
    next.with_previous = next.suits_list && before && before->suits_list &&
                         share_list(described(before->report), described(report)) && bytes + its <= kMaxListBytes;
    bytes = next.with_previous ? bytes + its : its;
    lists += !next.with_previous;
  }
}

// Holds back only one list that more operations may join: everything else would gain nothing from waiting. A single
// operation that must not wait is not sorted, because sorting would delay the operation.
void Agenda::decide_complete() {
  if (!has_held()) return;
  if (holds_ || complete_.reports.size() > 1) sort_into_lists();
  if (holds_ && complete_.lists == 1 && complete_.reports[0].suits_list) return;
  auto reports = std::exchange(complete_, {}).reports;
  for (std::size_t k = 0; k < reports.size(); k++) {
    Item decision = decision_of(std::move(reports[k].report));
    if (k + 1 < reports.size() && reports[k + 1].with_previous) decision.type = Item::Type::run_with_next;
    carry_down(decision);
  }
}

}  // namespace anello::agenda
