#include "ring/failure/failure_detector.hpp"

#include <algorithm>
#include <utility>

#include "ring/base/text.hpp"

namespace anello::failure {

FailureDetector::FailureDetector(int rank, std::vector<std::string> hosts, LocalView::Recall recall)
    : view_(rank, std::move(hosts), std::move(recall)),
      flood_(rank, view_.size()),
      graph_(rank, view_.size()),
      agreement_(rank, view_.size(), flood_),
      departures_(view_, flood_),
      mismatches_(view_, departures_, flood_),
      stalls_(view_, departures_, mismatches_, flood_),
      stragglers_(view_) {}

void FailureDetector::receive(std::string_view bytes, Time now) {
  for (const ControlMessage& message : flood_.receive(bytes, now)) route(message, now);
}

void FailureDetector::route(const ControlMessage& message, Time now) {
  const int origin = message.origin;
  switch (message.type) {
    case ControlMessage::Type::proposal:
      return agreement_.receive_proposal({origin, message.number}, message.verdict, now);
    case ControlMessage::Type::decision:
      return agreement_.receive_decision(message.verdict);
    case ControlMessage::Type::goodbye:
      departures_.receive_goodbye(message, now);
      if (message.group == 0) {
        agreement_.exclude(origin);
        graph_.left(origin, now);
      }
      mismatches_.receive_goodbye(origin, now);
      return forget_groups();
    case ControlMessage::Type::waiting:
    case ControlMessage::Type::called:
      mismatches_.receive_contradictions(origin, message.calls.front(), message.contradicted);
      return receive_call(origin, message.calls.front(), now);
    case ControlMessage::Type::stalled:
      stalls_.receive_question(message, now);
      take_completed_stalls(now);
      if (message.answer.state == StallAnswer::State::waits) receive_call(origin, message.calls.front(), now);
      return;
    case ControlMessage::Type::answer:
      stalls_.receive_answer(message);
      return take_completed_stalls(now);
    case ControlMessage::Type::refused:
      return stalls_.receive_refused(message.calls.front(), now);
    case ControlMessage::Type::slow:
      return report_straggler(origin, message.straggler, now);
  }
}

void FailureDetector::receive_call(int origin, const NamedSignature& theirs, Time now) {
  mismatches_.receive_call(origin, theirs, now);
  stalls_.refused(theirs.group, now);
}

void FailureDetector::forget_groups() {
  for (const std::uint64_t group : departures_.take_forgotten()) {
    view_.remove_group(group);
    mismatches_.leave(group);
    stalls_.leave(group);
  }
}

Verdict FailureDetector::dead(int rank, std::string_view how) const {
  return {ErrorCode::rank_dead, rank,
          text(view_.named(rank), " died: ", how, " (found out by rank ", view_.rank(), ")")};
}

void FailureDetector::connected(int rank) {
  graph_.connected(rank);
  agreement_.repeat();
}

// A rank that is unreachable counts as having left, although its goodbye has not arrived: if it had died, the ranks
// connected to it would propose its death.
void FailureDetector::unreachable(int rank) {
  agreement_.exclude(rank);
  graph_.unreachable(rank);
}

void FailureDetector::lost(int rank, std::string_view how, Time now) {
  if (has_left(rank)) return;
  propose(dead(rank, how), now);
  agreement_.died(rank);
}

void FailureDetector::silent(int rank, Time since, Time now) {
  if (has_left(rank)) return;
  agreement_.exclude(rank);
  propose({ErrorCode::rank_silent, rank,
           text(view_.named(rank),
                " is silent: its process is stopped or hangs, or the network between it and "
                "rank ",
                view_.rank(), " is cut; nothing was received for ", since.count(), " ms (ANELLO_SILENCE_LIMIT)")},
          now);
}

void FailureDetector::slow(const Straggler& straggler, Time now) {
  ControlMessage message{.type = ControlMessage::Type::slow};
  message.straggler = straggler;
  flood_.send(std::move(message));
  report_straggler(view_.rank(), straggler, now);
}

void FailureDetector::report_straggler(int complainant, const Straggler& straggler, Time now) {
  if (auto line = stragglers_.report(complainant, straggler, now)) reports_.push_back(std::move(*line));
}

void FailureDetector::suspect(int rank, std::uint64_t group, std::string_view how, Time now) {
  if (rank == view_.rank()) return propose({ErrorCode::network, rank, text(view_.named(rank), ": ", how)}, now);
  if (!verdict()) suspects_.push_back({rank, group, dead(rank, how), now + kSuspicionLimit});
}

void FailureDetector::propose_suspects(Time now) {
  const auto first =
      std::stable_partition(suspects_.begin(), suspects_.end(), [now](const Suspect& s) { return s.due > now; });
  for (auto suspect = first; suspect != suspects_.end(); ++suspect) {
    const std::uint64_t group = has_left(suspect->rank) ? 0 : suspect->group;
    const bool left = departures_.completed(suspect->rank, group).has_value();
    if (left && mismatches_.explains_departure(suspect->rank, suspect->group, now)) continue;
    propose(left ? departures_.left(suspect->rank, group, "still expected data from it") : suspect->verdict, now);
  }
  suspects_.erase(first, suspects_.end());
}

void FailureDetector::propose(const Verdict& verdict, Time now, Time limit) {
  agreement_.propose(verdict, now, limit);
}
void FailureDetector::propose_if_any(const std::optional<Verdict>& verdict, Time now) {
  if (verdict) agreement_.propose(*verdict, now);
}

void FailureDetector::enroll(std::uint64_t group, std::string name, std::vector<int> members, Time now) {
  view_.add_group(group, std::move(name), std::move(members));
  departures_.joined(group, now);
}
void FailureDetector::leave(std::uint64_t group, std::uint64_t completed) {
  departures_.leave(group, completed);
  if (group == 0) goodbye_ = flood_.newest();
  mismatches_.leave(group);
  stalls_.leave(group);
  forget_groups();
}
bool FailureDetector::is_goodbye_of(int neighbour, std::string_view bytes) const {
  return has_left(neighbour) && flood_.contains(bytes, {neighbour, 0});
}
void FailureDetector::needs(const Signature& mine, Time now) {
  propose_if_any(departures_.left_before(mine), now);
}
void FailureDetector::needs_messages(std::uint64_t group, std::uint64_t completed, std::string_view conflict,
                                     Time now) {
  propose_if_any(departures_.any_left(group, completed, conflict), now);
}
void FailureDetector::waiting(const Signature& mine, Time now) {
  mismatches_.waiting(mine, now);
  stalls_.waiting(mine, now);
}
void FailureDetector::differs(const NamedSignature& mine, int peer, const Signature& theirs, const Verdict& verdict,
                              Time now) {
  mismatches_.differs(mine, peer, theirs, verdict, now);
}
void FailureDetector::contradicts(const NamedSignature& mine, const std::vector<int>& peers, const Verdict& verdict,
                                  Time now) {
  mismatches_.contradicts(mine, peers, verdict, now);
}
void FailureDetector::moving(const Signature& mine) {
  mismatches_.moving(mine);
  stalls_.moving(mine);
}
void FailureDetector::refused(std::uint64_t group, const LocalView::Refusal& refusal, Time now) {
  view_.refuse(group, refusal);
  stalls_.refused(group, now);
  stalls_.say_refused(group);
}
void FailureDetector::stalled(const Signature& mine, Time period, Time now) {
  stalls_.stalled(mine, period, now);
}
void FailureDetector::overdue(const Signature& mine, Time limit, Time now) {
  stalls_.overdue(mine, limit, now);
}

void FailureDetector::take_completed_stalls(Time now) {
  StallReports::Completed completed = stalls_.take_completed();
  for (std::string& line : completed.reports) reports_.push_back(std::move(line));
  propose_if_any(completed.overdue, now);
}

void FailureDetector::tick(Time now) {
  flood_.tick(now);
  propose_suspects(now);
  departures_.tick(now);
  forget_groups();
  propose_if_any(mismatches_.tick(now), now);
  stalls_.tick(now);
  take_completed_stalls(now);
  agreement_.tick(now);
}

std::optional<FailureDetector::Time> FailureDetector::due() const {
  if (verdict()) return std::nullopt;
  std::optional<Time> first;
  for (const std::optional<Time>& due :
       {flood_.due(), agreement_.due(), departures_.due(), mismatches_.due(), stalls_.due(), graph_.due()})
    if (due) first = std::min(first.value_or(*due), *due);
  for (const Suspect& suspect : suspects_) first = std::min(first.value_or(suspect.due), suspect.due);
  return first;
}

std::vector<std::string> FailureDetector::take_reports() {
  return std::exchange(reports_, {});
}

}  // namespace anello::failure
