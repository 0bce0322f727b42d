#include "ring/failure/mismatches.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "ring/base/text.hpp"

namespace anello::failure {

std::chrono::milliseconds spread(int rank, std::size_t ranks, const Signature& operation) {
  constexpr std::chrono::milliseconds kStep{50};
  const std::uint64_t drawn = fingerprint(fingerprint(operation.group, operation.sequence), std::uint64_t(rank)) %
                              std::max<std::size_t>(ranks, 1);
  return kStep * std::bit_width(drawn);
}

MismatchDetector::MismatchDetector(const LocalView& view, const Departures& departures, Flood& flood)
    : view_(view), departures_(departures), flood_(flood) {}

// A transfer's members compare their calls on the connection between them.
std::optional<Verdict> MismatchDetector::waiting(const Signature& mine, Time now) {
  const LocalView::Group* group = view_.group(mine.group);
  if (!group) return std::nullopt;
  const Call named = view_.named(mine);
  waits_[mine.group] = named;
  for (const Received& received : received_[mine.group])
    if (auto verdict = compare(received.rank, received.operation)) return verdict;
  if (departures_.ends_at(mine.group) != UINT64_MAX)
    for (const int member : group->members)
      if (const auto theirs = departures_.last_called(member, mine.group, mine.sequence))
        if (auto verdict = compare(member, *theirs)) return verdict;
  if (mine.kind != Kind::transfer && !was_said(mine))
    pending_.push_back({named, now + spread(view_.rank(), group->members.size(), mine)});
  return std::nullopt;
}

void MismatchDetector::differs(const Signature& mine, const Verdict& verdict, Time now) {
  if (!unnamed_) unnamed_ = {verdict, now + kNameLimit};
  say(view_.named(mine));
}

void MismatchDetector::moving(const Signature& mine) {
  waits_.erase(mine.group);
  std::erase_if(pending_, [&](const Pending& pending) { return pending.operation == mine; });
}

void MismatchDetector::leave(std::uint64_t group) {
  waits_.erase(group);
  received_.erase(group);
  std::erase_if(pending_, [&](const Pending& pending) { return pending.operation.group == group; });
}

// Only members judge a group.
std::optional<Verdict> MismatchDetector::receive_waiting(int origin, const Call& theirs) {
  if (!view_.group(theirs.group)) return std::nullopt;
  remember(origin, theirs);
  return compare(origin, theirs);
}

std::optional<Verdict> MismatchDetector::receive_goodbye(int origin) const {
  for (const auto& [group, mine] : waits_)
    if (const auto theirs = departures_.last_called(origin, group, mine.sequence))
      if (auto verdict = compare(origin, *theirs)) return verdict;
  return std::nullopt;
}

// A rank that is behind may yet call the same operation; one that is ahead may have passed it with a different one.
std::optional<Verdict> MismatchDetector::compare(int other, const Call& theirs) const {
  const LocalView::Group* group = view_.group(theirs.group);
  if (!group || other == view_.rank()) return std::nullopt;
  const auto waits = waits_.find(theirs.group);
  const bool waits_in_it = waits != waits_.end() && waits->second.sequence == theirs.sequence;
  const auto mine = waits_in_it ? std::optional<Call>(waits->second) : view_.operation(theirs.group, theirs.sequence);
  if (!mine) return std::nullopt;
  const int me = view_.rank();
  std::string why = me < other ? difference(me, *mine, other, theirs) : difference(other, theirs, me, *mine);
  if (why.empty()) return std::nullopt;
  if (theirs.group != 0) why = text("in ", group->name, " ", why);
  return Verdict{ErrorCode::mismatch, std::max(me, other), why};
}

bool MismatchDetector::was_said(const Signature& operation) const {
  const auto received = received_.find(operation.group);
  return received != received_.end() &&
         std::ranges::any_of(received->second, [&](const Received& each) { return each.operation == operation; });
}

void MismatchDetector::remember(int rank, const Call& operation) {
  std::deque<Received>& received = received_[operation.group];
  received.push_back({rank, operation});
  if (received.size() > kMaxReceived) received.pop_front();
}

void MismatchDetector::say(const Call& operation) {
  remember(view_.rank(), operation);
  flood_.send({.type = ControlMessage::Type::waiting, .calls = {operation}});
}

std::optional<Verdict> MismatchDetector::tick(Time now) {
  std::vector<Pending> later;
  for (const Pending& pending : pending_) {
    if (pending.due > now) {
      later.push_back(pending);
    } else if (!was_said(pending.operation)) {
      say(pending.operation);
    }
  }
  pending_ = std::move(later);
  if (!unnamed_ || unnamed_->due > now) return std::nullopt;
  return std::exchange(unnamed_, std::nullopt)->verdict;
}

std::optional<MismatchDetector::Time> MismatchDetector::due() const {
  std::optional<Time> first;
  for (const Pending& pending : pending_) first = std::min(first.value_or(pending.due), pending.due);
  if (unnamed_) first = std::min(first.value_or(unnamed_->due), unnamed_->due);
  return first;
}

}  // namespace anello::failure
