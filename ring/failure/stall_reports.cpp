#include "ring/failure/stall_reports.hpp"

#include <algorithm>

#include "ring/base/text.hpp"

namespace anello::failure {
namespace {

constexpr std::uint64_t kMaxLookBack = 100;  // operations in which the last called one is searched

ControlMessage about(ControlMessage::Type type, const Signature& operation) {
  ControlMessage message{.type = type};
  message.signatures.push_back(operation);
  return message;
}

std::string last_called(const ControlMessage& absent) {
  return absent.signatures.empty() ? "" : describe(absent.signatures.front());
}

}  // namespace

StallReports::StallReports(const LocalView& view, const Departures& departures, Flood& flood)
    : view_(view), departures_(departures), flood_(flood), waiting_(std::size_t(view.size())) {}

std::optional<Verdict> StallReports::waiting(const Signature& mine) {
  flood_.send(about(ControlMessage::Type::waiting, mine));
  return receive_waiting(view_.rank(), mine);
}

std::optional<Verdict> StallReports::receive_waiting(int origin, const Signature& operation) {
  waiting_[std::size_t(origin)][operation.group] = operation;
  return mismatch(origin);
}

void StallReports::stalled(const Signature& mine, Time now) {
  Stall& its = stall(mine.group, mine.sequence, now);
  its.operation = mine;
  its.waiting.insert(view_.rank());
  flood_.send(about(ControlMessage::Type::stalled, mine));
}

void StallReports::overdue(const Signature& mine, Time now) {
  stalled(mine, now);
  stall(mine.group, mine.sequence, now).overdue = true;
}

void StallReports::receive_stalled(int origin, const Signature& operation, Time now) {
  Stall& its = stall(operation.group, operation.sequence, now);
  its.operation = operation;
  its.waiting.insert(origin);
  answer_if_absent(operation, its);
}

void StallReports::receive_absent(const ControlMessage& absent, Time now) {
  stall(absent.group, absent.sequence, now).absent[absent.origin] = last_called(absent);
}

StallReports::Stall& StallReports::stall(std::uint64_t group, std::uint64_t sequence, Time now) {
  const auto [found, is_new] = stalls_.try_emplace({group, sequence});
  if (is_new) found->second.due = now + kReportAfter;
  return found->second;
}

void StallReports::answer_if_absent(const Signature& operation, Stall& stall) {
  const LocalView::Group* group = view_.group(operation.group);
  const bool has_answered = stall.absent.contains(view_.rank());
  if (!group || !group->contains(view_.rank()) || has_answered) return;
  if (view_.operation(operation.group, operation.sequence)) return;
  ControlMessage absent{.type = ControlMessage::Type::absent, .group = operation.group, .sequence = operation.sequence};
  for (std::uint64_t sequence = operation.sequence; sequence-- > 0 && absent.signatures.empty();) {
    if (operation.sequence - sequence > kMaxLookBack) break;
    if (const auto last = view_.operation(operation.group, sequence)) absent.signatures.push_back(*last);
  }
  stall.absent[view_.rank()] = last_called(absent);
  flood_.send(std::move(absent));
}

// "allreduce #7 (sum of 100 f32) has stalled: ranks 0, 1, 3 wait; rank 2 on host2 has not come, and called last
// barrier #6"
std::string StallReports::report(const Stall& stall) const {
  std::string line = describe(stall.operation);
  const LocalView::Group* group = view_.group(stall.operation.group);
  if (stall.operation.group != 0) line += " in " + (group ? group->name : "a group");
  line += stall.waiting.size() == 1 ? " has stalled: rank" : " has stalled: ranks";
  for (const int rank : stall.waiting) line += text(rank == *stall.waiting.begin() ? " " : ", ", rank);
  line += stall.waiting.size() == 1 ? " waits" : " wait";
  for (const auto& [rank, last] : stall.absent)
    line += text("; ", view_.named(rank), " has not come, and called ",
                 last.empty() ? std::string("nothing before") : "last " + last);
  if (stall.absent.empty()) line += "; all ranks have called it, so a network or a process is slow";
  return line;
}

// What the rank called as the group's operation of that number, as far as this rank knows.
std::optional<Signature> StallReports::called(int rank, std::uint64_t group, std::uint64_t sequence) const {
  const auto& waiting = waiting_[std::size_t(rank)];
  const auto waits = waiting.find(group);
  if (waits != waiting.end() && waits->second.sequence == sequence) return waits->second;
  if (rank == view_.rank()) return view_.operation(group, sequence);
  return departures_.last_called(rank, group, sequence);
}

// Did the other rank call a different operation under the number in which `rank` waits? A rank that is behind may yet
// call the same one; one that is ahead may have passed this number with a different one. Only members judge a group.
std::optional<Verdict> StallReports::mismatch(int rank, const Signature& waits, int other) const {
  const LocalView::Group* group = view_.group(waits.group);
  if (!group) return std::nullopt;
  const std::optional<Signature> theirs = called(other, waits.group, waits.sequence);
  if (!theirs) return std::nullopt;
  std::string why = rank < other ? difference(rank, waits, other, *theirs) : difference(other, *theirs, rank, waits);
  if (why.empty()) return std::nullopt;
  if (waits.group != 0) why = text("in ", group->name, " ", why);
  return Verdict{ErrorCode::mismatch, std::max(rank, other), why};
}

std::optional<Verdict> StallReports::mismatch(int rank, int other) const {
  for (const auto& [group, waits] : waiting_[std::size_t(rank)])
    if (auto verdict = mismatch(rank, waits, other)) return verdict;
  return std::nullopt;
}

std::optional<Verdict> StallReports::mismatch(int rank) const {
  for (int other = 0; other < view_.size(); other++) {
    if (auto verdict = mismatch(rank, other)) return verdict;
    if (auto verdict = mismatch(other, rank)) return verdict;
  }
  return std::nullopt;
}

void StallReports::forget(std::uint64_t group) {
  for (auto& waits : waiting_) waits.erase(group);
}

StallReports::Completed StallReports::tick(Time now) {
  Completed completed;
  std::erase_if(stalls_, [&](const auto& each) {
    const Stall& stall = each.second;
    if (stall.due > now) return false;
    if (stall.waiting.empty()) return true;  // only answers have come
    if (!stall.overdue) {
      completed.reports.push_back(report(stall));
    } else if (!completed.overdue) {
      const int culprit = stall.absent.empty() ? -1 : stall.absent.begin()->first;
      completed.overdue = {ErrorCode::timed_out, culprit, report(stall) + " (ANELLO_OPERATION_LIMIT)"};
    }
    return true;
  });
  return completed;
}

std::optional<StallReports::Time> StallReports::due() const {
  std::optional<Time> first;
  for (const auto& [which, stall] : stalls_) first = std::min(first.value_or(stall.due), stall.due);
  return first;
}

}  // namespace anello::failure
