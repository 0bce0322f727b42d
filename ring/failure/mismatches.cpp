#include "ring/failure/mismatches.hpp"

#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>

namespace anello::failure {
namespace {

using Type = ControlMessage::Type;

}  // namespace

std::chrono::milliseconds spread(int rank, std::size_t ranks, const Signature& operation) {
  constexpr std::chrono::milliseconds kStep{50};
  const std::uint64_t drawn = fingerprint(fingerprint(operation.group, operation.sequence), std::uint64_t(rank)) %
                              std::max<std::size_t>(ranks, 1);
  return kStep * std::bit_width(drawn);
}

MismatchDetector::MismatchDetector(const LocalView& view, const Departures& departures, Flood& flood)
    : view_(view), departures_(departures), flood_(flood) {}

// A transfer's two members compare their calls on the connection between them, so they send no message.
void MismatchDetector::waiting(const Signature& mine, Time now) {
  const LocalView::Group* group = view_.group(mine.group);
  if (!group) return;
  const NamedSignature named = view_.named(mine);
  waits_[mine.group] = named;
  const std::deque<Received> received = received_[mine.group];
  for (const Received& each : received) compare({mine.group, each.operation.sequence}, now);
  compare({mine.group, mine.sequence}, now);
  if (mine.kind != Kind::transfer && !was_said(mine))
    pending_.push_back({named, now + spread(view_.rank(), group->members.size(), mine)});
}

void MismatchDetector::differs(const NamedSignature& mine, int peer, const Signature& theirs, const Verdict& verdict,
                               Time now) {
  if (!view_.group(mine.group)) return;
  const Number number{mine.group, mine.sequence};
  Open& its = open(number, now);
  its.shown = verdict;
  its.conflict.add(view_.rank(), view_.named(mine));
  if (theirs.sequence == mine.sequence) its.unsaid.try_emplace(peer, theirs);
  look(number, its, now);
}

// Every rank that finds contradictions sends them: the rank at fault may contradict several ranks, each of them only
// once.
void MismatchDetector::contradicts(const NamedSignature& mine, const std::vector<int>& peers, const Verdict& verdict,
                                   Time now) {
  if (!view_.group(mine.group)) return;
  const Number number{mine.group, mine.sequence};
  Open& its = open(number, now);
  its.shown = verdict;
  its.is_said = true;
  contradictions_[number][view_.rank()] = peers;
  say(Type::called, view_.named(mine), peers);
  look(number, its, now);
}

void MismatchDetector::moving(const Signature& mine) {
  waits_.erase(mine.group);
  std::erase_if(pending_, [&](const Pending& pending) { return pending.operation == mine; });
}

void MismatchDetector::leave(std::uint64_t group) {
  waits_.erase(group);
  received_.erase(group);
  std::erase_if(pending_, [&](const Pending& pending) { return pending.operation.group == group; });
  std::erase_if(conflicts_, [&](const auto& each) { return each.first.first == group; });
  std::erase_if(contradictions_, [&](const auto& each) { return each.first.first == group; });
}

// Only members of a group judge the group's calls.
void MismatchDetector::receive_call(int origin, const NamedSignature& theirs, Time now) {
  if (!view_.group(theirs.group)) return;
  remember(origin, theirs);
  compare({theirs.group, theirs.sequence}, now);
}

void MismatchDetector::receive_contradictions(int origin, const NamedSignature& theirs,
                                              const std::vector<int>& contradicted) {
  if (view_.group(theirs.group) && !contradicted.empty())
    contradictions_[{theirs.group, theirs.sequence}][origin] = contradicted;
}

void MismatchDetector::receive_goodbye(int origin, Time now) {
  for (const auto& [group, mine] : waits_)
    if (departures_.last_called(origin, group, mine.sequence)) compare({group, mine.sequence}, now);
}

bool MismatchDetector::explains_departure(int rank, std::uint64_t group, Time now) {
  if (!view_.group(group)) return false;
  for (const NamedSignature& call : departures_.last_calls(rank, group)) compare({group, call.sequence}, now);
  return std::ranges::any_of(conflicts_, [&](const auto& each) { return each.first.first == group; });
}

// Returns this rank's call with this number. The operation in which this rank waits now also counts: if this rank is
// behind, it may still make the same call, and if it is ahead, it may have called a different operation with this
// number.
std::optional<NamedSignature> MismatchDetector::own(const Number& number) const {
  const auto [group, sequence] = number;
  const auto waits = waits_.find(group);
  const bool waits_in_it = waits != waits_.end() && waits->second.sequence == sequence;
  return waits_in_it ? std::optional<NamedSignature>(waits->second) : view_.operation(group, sequence);
}

void MismatchDetector::compare(const Number& number, Time now) {
  if (!conflicts_.contains(number)) {
    Conflict known;
    add_known(number, known);
    if (!known.exists()) return;
  }
  look(number, open(number, now), now);
}

MismatchDetector::Open& MismatchDetector::open(const Number& number, Time now) {
  const auto [place, is_new] = conflicts_.try_emplace(number);
  Open& its = place->second;
  if (!is_new) return its;
  const LocalView::Group& group = *view_.group(number.first);
  its.conflict.group = number.first == 0 ? "" : group.name;
  its.conflict.members = group.members.size();
  its.began = now;
  return its;
}

void MismatchDetector::add_known(const Number& number, Conflict& conflict) const {
  const auto [group, sequence] = number;
  if (const auto received = received_.find(group); received != received_.end())
    for (const Received& each : received->second)
      if (each.operation.sequence == sequence) conflict.add(each.rank, each.operation);
  if (departures_.ends_at(group) != UINT64_MAX)
    for (const int member : view_.group(group)->members)
      if (const auto theirs = departures_.last_called(member, group, sequence)) conflict.add(member, *theirs);
  if (const auto mine = own(number)) conflict.add(view_.rank(), *mine);
}

// A rank that has left makes no calls any more.
bool MismatchDetector::may_call(int member, const Number& number) const {
  return !departures_.has_left(member) && !departures_.completed(member, number.first);
}

void MismatchDetector::look(const Number& number, Open& open, Time now) {
  Conflict& conflict = open.conflict;
  add_known(number, conflict);
  open.look_at = now + kLook;
  const auto mine = conflict.calls.find(view_.rank());
  if (mine != conflict.calls.end() && !std::exchange(open.is_said, true)) say(Type::called, mine->second);
  bool is_complete = true;
  conflict.missing.clear();
  for (const int member : view_.group(number.first)->members) {
    if (conflict.calls.contains(member)) continue;
    conflict.missing.push_back(member);
    is_complete &= !may_call(member, number);
  }
  std::ranges::sort(conflict.missing);
  if (is_complete && !open.complete) open.complete = now;
}

// Ranks judge at different times (spread()), so about one rank judges first, and the others receive its proposal.
MismatchDetector::Time MismatchDetector::judge_at(const Number& number, const Open& open) const {
  Signature operation;
  std::tie(operation.group, operation.sequence) = number;
  Time at = open.began + kLimit;
  if (open.conflict.exists()) {
    if (open.conflict.has_majority()) at = open.began + kMajorityLimit;
    at = std::min(at, open.complete.value_or(at));
  }
  return at + spread(view_.rank(), open.conflict.members, operation);
}

std::optional<Verdict> MismatchDetector::judge_open(const Number& number, Open& open) const {
  open.is_judged = true;
  for (const auto& [rank, call] : open.unsaid)
    if (open.conflict.add(rank, call)) std::erase(open.conflict.missing, rank);
  if (open.conflict.exists()) return judge(open.conflict);
  const auto contradictions = contradictions_.find(number);
  if (!open.shown || contradictions == contradictions_.end()) return open.shown;
  return judge(contradictions->second, *open.shown);
}

std::optional<NamedSignature> MismatchDetector::said(std::uint64_t group, std::uint64_t sequence) const {
  const auto received = received_.find(group);
  if (received == received_.end()) return std::nullopt;
  const auto is_it = [&](const Received& each) {
    return each.operation.sequence == sequence && each.rank != view_.rank();
  };
  const auto found = std::ranges::find_if(received->second, is_it);
  return found == received->second.end() ? std::nullopt : std::optional(found->operation);
}

bool MismatchDetector::was_said(const Signature& operation) const {
  const auto received = received_.find(operation.group);
  return received != received_.end() &&
         std::ranges::any_of(received->second, [&](const Received& each) { return each.operation == operation; });
}

void MismatchDetector::remember(int rank, const NamedSignature& operation) {
  if (const auto its = conflicts_.find({operation.group, operation.sequence}); its != conflicts_.end())
    return (void)its->second.conflict.add(rank, operation);
  std::deque<Received>& received = received_[operation.group];
  received.push_back({rank, operation});
  if (received.size() > kMaxReceived) received.pop_front();
}

void MismatchDetector::say(Type type, const NamedSignature& operation, std::vector<int> contradicted) {
  remember(view_.rank(), operation);
  flood_.send({.type = type, .contradicted = std::move(contradicted), .calls = {operation}});
}

std::optional<Verdict> MismatchDetector::tick(Time now) {
  std::vector<Pending> later;
  for (const Pending& pending : pending_) {
    if (pending.due > now) {
      later.push_back(pending);
    } else if (!was_said(pending.operation)) {
      say(Type::waiting, pending.operation);
    }
  }
  pending_ = std::move(later);
  for (auto& [number, its] : conflicts_) {
    if (its.is_judged) continue;
    if (its.look_at <= now) {
      // If this look is more than kLook late, this rank was stopped and has unread messages. Then the time of the stop
      // does not count.
      if (now > its.look_at + kLook) its.began += now - its.look_at;
      look(number, its, now);
    }
    if (judge_at(number, its) <= now) return judge_open(number, its);
  }
  return std::nullopt;
}

std::optional<MismatchDetector::Time> MismatchDetector::due() const {
  std::optional<Time> first;
  const auto consider = [&](Time due) { first = std::min(first.value_or(due), due); };
  for (const Pending& pending : pending_) consider(pending.due);
  for (const auto& [number, its] : conflicts_) {
    if (its.is_judged) continue;
    consider(std::min(judge_at(number, its), its.look_at));
  }
  return first;
}

}  // namespace anello::failure
