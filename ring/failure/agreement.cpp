#include "ring/failure/agreement.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "ring/base/text.hpp"

namespace anello {
namespace {
constexpr std::uint64_t kFarBehind = 100;  // operations; what was called before is forgotten
}

FailureAgreement::FailureAgreement(int rank, std::vector<std::string> hosts, Recall recall)
    : rank_(rank), recall_(std::move(recall)) {
  for (std::string& host : hosts) members_.push_back({.host = std::move(host)});
  std::vector<int> everybody(members_.size());
  std::iota(everybody.begin(), everybody.end(), 0);
  groups_[0] = {"the world", std::move(everybody)};
}

std::string FailureAgreement::named(int rank) const {
  return text("rank ", rank, " on ", members_[std::size_t(rank)].host);
}

int FailureAgreement::arbiter() const {
  const auto alive =
      std::find_if(members_.begin(), members_.end(), [](const Member& m) { return !m.dead && !m.parted.contains(0); });
  return alive == members_.end() ? rank_ : int(alive - members_.begin());
}

// A window of 64 numbers: what is older has long been seen.
bool FailureAgreement::first_sight(Member& origin, std::uint32_t number) {
  if (number > origin.newest) {
    const std::uint32_t ahead = number - origin.newest;
    origin.seen = ahead < 64 ? origin.seen << ahead : 0;
    origin.newest = number;
  }
  const std::uint32_t behind = origin.newest - number;
  if (behind >= 64 || (origin.seen >> behind & 1)) return false;
  origin.seen |= std::uint64_t(1) << behind;
  return true;
}

void FailureAgreement::flood(ControlMessage frame) {
  frame.origin = rank_;
  frame.number = ++number_;
  first_sight(members_[std::size_t(rank_)], number_);
  outbox_.push_back(encode(frame));
}

void FailureAgreement::receive(std::string_view bytes, Time now) {
  ControlMessage frame = decode_control_message(bytes, int(members_.size()));
  if (!first_sight(members_[std::size_t(frame.origin)], frame.number)) return;
  outbox_.emplace_back(bytes);
  act(std::move(frame), now);
}

void FailureAgreement::act(ControlMessage frame, Time now) {
  Member& member = members_[std::size_t(frame.origin)];
  switch (frame.type) {
    case ControlMessage::Type::proposal:
      consider(frame.origin, frame.verdict, now);
      break;
    case ControlMessage::Type::decision:
      if (!verdict_) verdict_ = std::move(frame.verdict);
      break;
    case ControlMessage::Type::goodbye:
      member.parted[frame.group] = frame.completed;
      for (const auto& [group, ours] : groups_)
        if (frame.group == 0) note_absence(frame.origin, group, now);
      member.last[frame.group] = std::move(frame.signatures);
      compare(frame.origin, now);
      break;
    case ControlMessage::Type::waiting:
      member.waiting[frame.signatures.front().group] = frame.signatures.front();
      compare(frame.origin, now);
      break;
    case ControlMessage::Type::stalled: {
      const Signature& operation = frame.signatures.front();
      Stall& its = stall(operation.group, operation.sequence, now);
      its.operation = operation;
      its.waiting.insert(frame.origin);
      say_if_absent(operation, now);
      break;
    }
    case ControlMessage::Type::slow:
      report(frame.origin, frame.lag, now);
      break;
    case ControlMessage::Type::absent:
      stall(frame.group, frame.sequence, now).absent[frame.origin] =
          frame.signatures.empty() ? "" : describe(frame.signatures.front());
      break;
  }
}

Verdict FailureAgreement::dead(int rank, std::string_view how) const {
  return {ErrorCode::rank_dead, rank, text(named(rank), " died: ", how, " (found out by rank ", rank_, ")")};
}

Verdict FailureAgreement::left(int rank, std::uint64_t group, std::string_view but) const {
  const auto name = groups_.find(group);
  const std::string& what = (name == groups_.end() ? groups_.at(0) : name->second).name;
  return {ErrorCode::rank_left, rank,
          text(named(rank), " left ", what, " after ", *parted_after(rank, group), " operations, but rank ", rank_, " ",
               but)};
}

// Who leaves the world leaves all groups, and says so of each first.
std::optional<std::uint64_t> FailureAgreement::parted_after(int rank, std::uint64_t group) const {
  const Member& member = members_[std::size_t(rank)];
  if (const auto parted = member.parted.find(group); parted != member.parted.end()) return parted->second;
  return std::nullopt;
}

std::uint64_t FailureAgreement::ends_at(std::uint64_t group) const {
  std::uint64_t least = UINT64_MAX;
  for (int rank = 0; rank < int(members_.size()); rank++)
    if (rank != rank_) least = std::min(least, parted_after(rank, group).value_or(UINT64_MAX));
  return least;
}

void FailureAgreement::enroll(std::uint64_t group, std::string name, std::vector<int> members, Time now) {
  groups_[group] = {std::move(name), std::move(members)};
  for (const int member : groups_[group].members)
    if (has_left(member)) note_absence(member, group, now);
}

void FailureAgreement::note_absence(int rank, std::uint64_t group, Time now) {
  const std::vector<int>& members = groups_.at(group).members;
  const bool is_member = std::find(members.begin(), members.end(), rank) != members.end();
  if (is_member && !parted_after(rank, group)) absences_.push_back({rank, group, now + kSuspicionLimit});
}

void FailureAgreement::lost(int rank, std::string_view how, Time now) {
  if (has_left(rank)) return;
  members_[std::size_t(rank)].dead = true;
  propose(dead(rank, how), now);
}

void FailureAgreement::silent(int rank, Time since, Time now) {
  if (has_left(rank)) return;
  members_[std::size_t(rank)].dead = true;
  propose({ErrorCode::rank_silent, rank,
           text(named(rank), " is silent: its process is stopped or hangs, or the network between it and rank ", rank_,
                " is cut; nothing was heard for ", since.count(), " ms (ANELLO_SILENCE_LIMIT)")},
          now);
}

void FailureAgreement::slow(const Straggler& lag, Time now) {
  ControlMessage frame{.type = ControlMessage::Type::slow};
  frame.lag = lag;
  flood(std::move(frame));
  report(rank_, lag, now);
}

// Every neighbour complains, and goes on complaining.
void FailureAgreement::report(int complains, const Straggler& lag, Time now) {
  auto& called = members_[std::size_t(lag.rank)].called_slow;
  if (called && now < *called + kQuiet) return;
  called = now;
  reports_.push_back(text(named(lag.rank), " keeps others waiting: of the last ", lag.period.count(), " ms ",
                          named(complains), " spent ", lag.own.count(), " asleep in operations, rank ", lag.rank,
                          " only ", lag.theirs.count()));
}

void FailureAgreement::suspect(int rank, std::uint64_t group, std::string_view how, Time now) {
  if (rank == rank_) return propose({ErrorCode::network, rank_, text(named(rank_), ": ", how)}, now);
  if (!verdict_) suspects_.push_back({rank, group, dead(rank, how), now + kSuspicionLimit});
}

void FailureAgreement::propose(const Verdict& verdict, Time now) {
  if (verdict_ || proposals_.contains(rank_)) return;
  Verdict cut = verdict;
  cut.message.resize(std::min(cut.message.size(), ControlMessage::kMaxMessageBytes));
  flood({.type = ControlMessage::Type::proposal, .verdict = cut});
  consider(rank_, cut, now);
}

void FailureAgreement::consider(int origin, const Verdict& verdict, Time now) {
  const bool gone = verdict.code == ErrorCode::rank_dead || verdict.code == ErrorCode::rank_silent;
  if (gone && verdict.culprit >= 0) members_[std::size_t(verdict.culprit)].dead = true;
  proposals_.try_emplace(origin, verdict);
  if (!decide_by_) decide_by_ = now + kArbiterLimit;
  if (arbiter() == rank_) decide(verdict);
}

void FailureAgreement::decide(const Verdict& verdict) {
  if (verdict_) return;
  verdict_ = verdict;
  flood({.type = ControlMessage::Type::decision, .verdict = verdict});
}

void FailureAgreement::waiting(const Signature& mine, Time now) {
  members_[std::size_t(rank_)].waiting[mine.group] = mine;
  ControlMessage frame{.type = ControlMessage::Type::waiting};
  frame.signatures.push_back(mine);
  flood(std::move(frame));
  compare(rank_, now);
}

void FailureAgreement::stalled(const Signature& mine, Time now) {
  Stall& its = stall(mine.group, mine.sequence, now);
  its.operation = mine;
  its.waiting.insert(rank_);
  ControlMessage frame{.type = ControlMessage::Type::stalled};
  frame.signatures.push_back(mine);
  flood(std::move(frame));
}

void FailureAgreement::overdue(const Signature& mine, Time now) {
  stalled(mine, now);
  stall(mine.group, mine.sequence, now).overdue = true;
}

FailureAgreement::Stall& FailureAgreement::stall(std::uint64_t group, std::uint64_t sequence, Time now) {
  const auto [found, fresh] = stalls_.try_emplace({group, sequence});
  if (fresh) found->second.due = now + kReportAfter;
  return found->second;
}

// Others wait: has this rank come? If not, what did it call last?
void FailureAgreement::say_if_absent(const Signature& operation, Time now) {
  const auto group = groups_.find(operation.group);
  Stall& its = stall(operation.group, operation.sequence, now);
  if (group == groups_.end() || its.absent.contains(rank_) || recall_(operation.group, operation.sequence)) return;
  const std::vector<int>& members = group->second.members;
  if (std::find(members.begin(), members.end(), rank_) == members.end()) return;
  ControlMessage frame{.type = ControlMessage::Type::absent, .group = operation.group, .sequence = operation.sequence};
  for (std::uint64_t sequence = operation.sequence; sequence-- > 0 && frame.signatures.empty();) {
    if (operation.sequence - sequence > kFarBehind) break;
    if (const auto last = recall_(operation.group, sequence)) frame.signatures.push_back(*last);
  }
  its.absent[rank_] = frame.signatures.empty() ? "" : describe(frame.signatures.front());
  flood(std::move(frame));
}

// "allreduce #7 (sum of 100 f32) has stalled: ranks 0, 1, 3 wait; rank 2 on host2 has not come, and called last
// barrier #6"
std::string FailureAgreement::report(const Stall& stall) const {
  std::string line = describe(stall.operation);
  const auto group = groups_.find(stall.operation.group);
  if (stall.operation.group != 0) line += " in " + (group == groups_.end() ? "a group" : group->second.name);
  line += stall.waiting.size() == 1 ? " has stalled: rank" : " has stalled: ranks";
  for (const int rank : stall.waiting) line += text(rank == *stall.waiting.begin() ? " " : ", ", rank);
  line += stall.waiting.size() == 1 ? " waits" : " wait";
  for (const auto& [rank, last] : stall.absent)
    line += text("; ", named(rank), " has not come, and called ",
                 last.empty() ? std::string("nothing before") : "last " + last);
  if (stall.absent.empty()) line += "; everybody has come, so a network or a process is slow";
  return line;
}

void FailureAgreement::settle(const Stall& stall, Time now) {
  if (stall.waiting.empty()) return;
  if (!stall.overdue) return reports_.push_back(report(stall));
  const int culprit = stall.absent.empty() ? -1 : stall.absent.begin()->first;
  propose({ErrorCode::timed_out, culprit, report(stall) + " (ANELLO_OPERATION_LIMIT)"}, now);
}

std::vector<std::string> FailureAgreement::take_reports() {
  return std::exchange(reports_, {});
}

// What the rank called as the group's operation of that number, as far as is known here.
std::optional<Signature> FailureAgreement::called(int rank, std::uint64_t group, std::uint64_t sequence) const {
  const Member& member = members_[std::size_t(rank)];
  const auto waits = member.waiting.find(group);
  if (waits != member.waiting.end() && waits->second.sequence == sequence) return waits->second;
  if (rank == rank_) return recall_(group, sequence);
  const auto last = member.last.find(group);
  if (last == member.last.end()) return std::nullopt;
  for (const Signature& signature : last->second)
    if (signature.sequence == sequence) return signature;
  return std::nullopt;
}

// Does one of them wait in an operation that was another one for the other? A rank that is behind may yet come; one
// that is ahead has come through, but maybe through something else. A group is its members' affair.
bool FailureAgreement::compare(int rank, const Signature& waits, int other, Time now) {
  const auto group = groups_.find(waits.group);
  if (group == groups_.end()) return false;
  const std::optional<Signature> theirs = called(other, waits.group, waits.sequence);
  if (!theirs) return false;
  std::string why = rank < other ? difference(rank, waits, other, *theirs) : difference(other, *theirs, rank, waits);
  if (why.empty()) return false;
  if (waits.group != 0) why = text("in ", group->second.name, " ", why);
  propose({ErrorCode::mismatch, std::max(rank, other), why}, now);
  return true;
}

bool FailureAgreement::compare(int rank, int other, Time now) {
  for (const auto& [group, waits] : members_[std::size_t(rank)].waiting)
    if (compare(rank, waits, other, now)) return true;
  return false;
}

void FailureAgreement::compare(int rank, Time now) {
  for (int other = 0; other < int(members_.size()); other++)
    if (compare(rank, other, now) || compare(other, rank, now)) return;
}

void FailureAgreement::needs(const Signature& mine, Time now) {
  for (int rank = 0; rank < int(members_.size()); rank++)
    if (const auto after = parted_after(rank, mine.group); after && *after <= mine.sequence)
      return propose(left(rank, mine.group, "calls " + describe(mine)), now);
}

void FailureAgreement::goodbye(std::uint64_t group, std::uint64_t completed) {
  ControlMessage frame{.type = ControlMessage::Type::goodbye, .group = group, .completed = completed};
  for (std::uint64_t sequence = completed - std::min<std::uint64_t>(completed, kLast); sequence < completed; sequence++)
    if (const auto signature = recall_(group, sequence)) frame.signatures.push_back(*signature);
  flood(std::move(frame));
}

void FailureAgreement::tick(Time now) {
  const auto first = std::stable_partition(suspects_.begin(), suspects_.end(),
                                           [now](const Pending& pending) { return pending.due > now; });
  for (auto pending = first; pending != suspects_.end(); ++pending) {
    const std::uint64_t group = has_left(pending->rank) ? 0 : pending->group;
    propose(parted_after(pending->rank, group) ? left(pending->rank, group, "still expected data from it")
                                               : pending->verdict,
            now);
  }
  suspects_.erase(first, suspects_.end());
  std::erase_if(absences_, [&](const Absence& absence) {
    if (absence.due > now) return false;
    members_[std::size_t(absence.rank)].parted.try_emplace(absence.group, 0);
    return true;
  });
  std::erase_if(stalls_, [&](const auto& each) {
    if (each.second.due > now) return false;
    settle(each.second, now);
    return true;
  });
  if (!verdict_ && decide_by_ && *decide_by_ <= now) decide(proposals_.begin()->second);
}

std::optional<FailureAgreement::Time> FailureAgreement::due() const {
  if (verdict_) return std::nullopt;
  std::optional<Time> first = decide_by_;
  for (const Pending& pending : suspects_) first = std::min(first.value_or(pending.due), pending.due);
  for (const auto& [which, stall] : stalls_) first = std::min(first.value_or(stall.due), stall.due);
  for (const Absence& absence : absences_) first = std::min(first.value_or(absence.due), absence.due);
  return first;
}

std::vector<std::string> FailureAgreement::take_outbox() {
  return std::exchange(outbox_, {});
}

}  // namespace anello
