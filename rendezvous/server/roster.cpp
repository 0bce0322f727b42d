#include "rendezvous/server/roster.hpp"

#include <algorithm>
#include <set>

#include "rendezvous/protocol/describe.hpp"
#include "rendezvous/server/assign.hpp"
#include "rendezvous/server/reachability.hpp"
#include "ring/base/rank_list.hpp"
#include "ring/base/text.hpp"

namespace anello::rendezvous {

using std::chrono::milliseconds;

Roster::Sends Roster::joined(MemberId id, const Join& join, Time now) {
  if (failed_starts_.concluded()) return {{{id}, failed_starts_.reply_to(join.rank)}};
  if (phase_ == Phase::starting) return refuse_late(id, join);
  newest_join_ = now;
  if (const Failed* why = failed_starts_.failure_for(join, now)) return {{{id}, *why}};
  if (members_.empty()) {
    size_ = expected_ > 0 ? expected_ : std::max(join.size, 0);
    size_from_ = expected_ > 0 ? "the rendezvous server" : describe(join);
    wait_.begin(now);
  }
  const std::string wrong = conflict(join);
  members_.emplace(id, Member{join, seats_++});
  if (!wrong.empty()) return give_up(ErrorCode::configuration, join.rank, wrong);
  if (join.rank >= 0) ranks_.emplace(join.rank, id);
  wait_.limit(now + std::min(join.patience, patience_));
  return members_.size() == std::size_t(size_) ? start(now) : give_up_without_exited();
}

// Refuses a rank that joins while the world starts. If its number is free because the process with this number has
// left, the rank may be that process, which begins its next world.
Roster::Sends Roster::refuse_late(MemberId id, const Join& join) {
  const auto holder = ranks_.find(join.rank);
  if (holder == ranks_.end() && !left_.empty()) return {{{id}, ComeAgain{}}};
  const std::string why = holder == ranks_.end() ? text(describe(join), " is one rank too many")
                                                 : claimed_twice(members_.at(holder->second).join, join);
  const std::string message =
      text("the world of ", size_,
           " is complete and starting; if this process was restarted, that was too early; otherwise ", why);
  return {{{id}, Failed{ErrorCode::rendezvous, join.rank, message}}};
}

Roster::Sends Roster::conclude(const Failed& why, int by) {
  failed_starts_.conclude(why, by);
  return members_.empty() ? Sends() : give_up(why.code, why.rank, why.message);
}

Roster::Sends Roster::exited(int rank) {
  exited_.push_back(rank);
  return give_up_without_exited();
}

// If every member has a given rank, ends the start. The reason is the first rank that exited without having joined.
Roster::Sends Roster::give_up_without_exited() {
  if (phase_ != Phase::gathering || members_.empty() || ranks_.size() != members_.size()) return {};
  for (const int rank : exited_)
    if (rank < size_ && !ranks_.contains(rank)) return give_up_because_of(rank);
  return {};
}

Roster::Sends Roster::give_up_because_of(int exited) {
  const Failed* const noted = failed_starts_.reason_of(exited);
  const Failed why =
      noted ? *noted
            : Failed{ErrorCode::rendezvous, exited, text("rank ", exited, " exited before it joined the others")};
  return give_up(why.code, why.rank, why.message);
}

// Says why this joiner cannot be part of the world; empty if it can.
std::string Roster::conflict(const Join& join) const {
  if (size_ == 0)
    return text(describe(join),
                " was given no size of the world, and neither was the rendezvous server; set ANELLO_SIZE");
  if (join.size >= 0 && join.size != size_)
    return text(describe(join), " was started for a world of ", join.size, ", but ", size_from_, " expects ", size_);
  if (join.rank >= size_) return text(describe(join), ": the ranks of this world are 0 to ", size_ - 1);
  const auto claimed = ranks_.find(join.rank);
  return claimed == ranks_.end() ? "" : claimed_twice(members_.at(claimed->second).join, join);
}

Roster::Sends Roster::start(Time now) {
  if (const std::string why = unreachable(joins()); !why.empty()) return give_up(ErrorCode::configuration, -1, why);
  std::map<std::uint64_t, MemberId> seats;
  for (const auto& [id, member] : members_) seats.emplace(member.seat, id);
  std::vector<Assigned> assigned = assign(joins(), generation_);
  Sends sends;
  ranks_.clear();
  for (const auto& [seat, id] : seats) {
    Assigned& mine = assigned[sends.size()];
    mine.incarnation = incarnation_;
    Join& join = members_.at(id).join;
    join.rank = mine.rank;
    join.host = mine.host;
    ranks_.emplace(mine.rank, id);
    sends.push_back({{id}, mine});
  }
  phase_ = Phase::starting;
  newest_ = joins();
  formed_ = {generation_, size_, {}, incarnation_};
  unfinished_.clear();
  wait_for_next_step(now);
  return sends;
}

Roster::Sends Roster::contributed(MemberId id, Contribution contribution, Time now) {
  const auto at = members_.find(id);
  if (at == members_.end()) return {};
  const Join& join = at->second.join;
  if (phase_ == Phase::gathering || round_.has(join.rank)) return failed(id, "it sent a contribution out of turn", now);
  if (!left_.empty())
    return give_up(ErrorCode::rendezvous, -1,
                   text(left_, " left the rendezvous while ", describe(join), " still exchanges"));
  if (round_.count() == 0) {
    wait_.begin(now);
    wait_.clear();
  }
  if (!round_.add(join.rank, std::move(contribution.blob)))
    return give_up(
        ErrorCode::rendezvous, join.rank,
        text("the contributions to one exchange have more than ", ExchangeRound::kMaxBytes, " bytes together"));
  wait_.limit(now + std::min(contribution.patience, patience_));
  return round_.count() == members_.size() ? finish_round(now) : Sends();
}

Roster::Sends Roster::finish_round(Time now) {
  Send send;
  for (const auto& [rank, id] : ranks_) send.to.push_back(id);
  send.reply = round_.take();
  wait_for_next_step(now);
  return {std::move(send)};
}

// Between two rounds ranks connect to each other. If that takes too long, the ranks should report it before this
// deadline.
void Roster::wait_for_next_step(Time now) {
  constexpr milliseconds kForRanksToReport{5000};
  wait_.begin(now);
  wait_.end_at(now + patience_ + kForRanksToReport);
}

Roster::Sends Roster::left(MemberId id, Time now, std::uint16_t port) {
  const auto at = members_.find(id);
  if (const auto late = unfinished_.find(id); late != unfinished_.end() && port != 0)
    formed_.ranks.push_back({late->second.rank, late->second.address, port});
  if (at == members_.end()) return {};
  if (phase_ == Phase::gathering || round_.count() > 0) return failed(id, "it left too early", now);
  const Join& join = at->second.join;
  if (left_.empty()) {
    left_ = describe(join);
    wait_for_next_step(now);
  }
  if (port != 0) formed_.ranks.push_back({join.rank, join.address, port});
  ranks_.erase(join.rank);
  members_.erase(at);
  return members_.empty() ? form() : Sends();
}

Roster::Sends Roster::form() {
  for (const auto& [id, member] : members_) unfinished_.emplace(id, member.join);
  worlds_formed_++;
  last_failure_.clear();
  failed_starts_.clear();
  next_generation();
  return {};
}

Roster::Sends Roster::failed(MemberId id, const std::string& reason, Time now, int culprit) {
  const auto at = members_.find(id);
  if (at == members_.end()) return {};
  const int own = at->second.join.rank;
  if (phase_ == Phase::gathering || culprit < 0 || culprit >= size_) culprit = own;
  const auto holder = ranks_.find(culprit);
  std::string who = text("rank ", culprit);  // the culprit may have left, and then has no description
  if (culprit == own)
    who = describe(at->second.join);
  else if (holder != ranks_.end())
    who = describe(members_.at(holder->second).join);
  return end_start(culprit, text(who, " failed during start-up: ", reason), now);
}

Roster::Sends Roster::disconnected(MemberId id, Time now) {
  const auto at = members_.find(id);
  if (at == members_.end()) return {};
  const Join join = at->second.join;
  members_.erase(at);
  return end_start(join.rank, text(describe(join), " ended or lost its connection during start-up"), now);
}

Roster::Sends Roster::ended_early(int rank, Time now) {
  if (failed_starts_.concluded() || phase_ == Phase::starting || ranks_.contains(rank)) return {};
  newest_join_ = now;
  return end_start(rank, text("rank ", rank, " ended or lost its connection before it joined"), now);
}

// If some ranks have not joined yet, keeps the failure for them.
Roster::Sends Roster::end_start(int culprit, const std::string& message, Time now) {
  if (phase_ == Phase::gathering && culprit >= 0) {
    // Keeps the failure for twice patience_ after the newest join: a rank may wait for patience_ here, and a late rank
    // may have waited equally long elsewhere.
    std::set<int> informed = {culprit};
    for (const auto& [rank, id] : ranks_) informed.insert(rank);
    failed_starts_.keep({ErrorCode::rendezvous, culprit, message}, now, newest_join_ + 2 * patience_, informed);
  }
  return give_up(ErrorCode::rendezvous, culprit, message);
}

Roster::Sends Roster::aborted(int culprit, const std::string& reason) {
  if (members_.empty()) return {};
  if (phase_ == Phase::starting)
    for (const auto& [id, member] : members_) unfinished_.emplace(id, member.join);
  return give_up(ErrorCode::aborted, culprit, reason);
}

void Roster::refused(const std::string& why) {
  refusals_.count++;
  refusals_.last = why;
}

Roster::Sends Roster::expired() {
  if (!wait_.end()) return {};
  const auto waited = seconds(wait_.duration());
  if (phase_ == Phase::gathering) {
    const std::vector<int> absent = this->absent();
    Sends sends = give_up(ErrorCode::rendezvous, -1,
                          text("only ", members_.size(), " of ", size_, " ranks joined within ", waited, ": missing ",
                               missing(), "; present: ", present_list(joins())),
                          hints());
    // Only the members receive the missing rank as the culprit: if it joins later, it has its own reason.
    if (absent.size() == 1) std::get<Failed>(sends.front().reply).rank = absent.front();
    return sends;
  }
  if (!left_.empty()) return form();
  std::vector<Join> late;
  for (const auto& [rank, id] : ranks_)
    if (!round_.has(rank)) late.push_back(members_.at(id).join);
  return give_up(ErrorCode::rendezvous, round_.count() > 0 ? late.front().rank : -1,
                 text("the start-up does not progress: waited ", waited, " for ", present_list(late)));
}

std::string Roster::waiting() const {
  if (phase_ != Phase::gathering || members_.empty()) return {};
  return text("waiting: ", members_.size(), " of ", size_, " ranks have joined; missing ", missing());
}

std::string Roster::missing() const {
  const int count = size_ - int(members_.size());
  const std::vector<int> absent = this->absent();
  return absent.empty() ? text(count, count == 1 ? " rank" : " ranks") : rank_list(absent);
}

std::vector<int> Roster::absent() const {
  std::vector<int> absent;
  if (ranks_.size() < members_.size()) return absent;
  for (int rank = 0; rank < size_; rank++)
    if (!ranks_.contains(rank)) absent.push_back(rank);
  return absent;
}

std::string Roster::hints() const {
  std::string out;
  if (refusals_.count > 0) out += text("; rejected connections: ", refusals_.count, ", the last one: ", refusals_.last);
  if (!last_failure_.empty()) out += text("; the previous start-up failed: ", last_failure_);
  return out;
}

Roster::Sends Roster::give_up(ErrorCode code, int culprit, const std::string& message, const std::string& hint) {
  Send send;
  for (const auto& [id, member] : members_) send.to.push_back(id);
  send.reply = Failed{code, culprit, message + hint};
  last_failure_ = message;
  for (const auto& [id, member] : members_) failed_starts_.note(member.join.rank, {code, culprit, message});
  if (culprit >= 0) failed_starts_.note(culprit, {code, culprit, message});
  next_generation();
  return {std::move(send)};
}

void Roster::next_generation() {
  generation_++;
  phase_ = Phase::gathering;
  members_.clear();
  ranks_.clear();
  round_.clear();
  left_.clear();
  wait_.clear();
  refusals_ = {};
}

std::vector<Join> Roster::joins() const {
  std::vector<const Member*> members;
  for (const auto& [id, member] : members_) members.push_back(&member);
  std::sort(members.begin(), members.end(), [](const Member* a, const Member* b) { return a->seat < b->seat; });
  std::vector<Join> out;
  out.reserve(members.size());
  for (const Member* member : members) out.push_back(member->join);
  return out;
}

}  // namespace anello::rendezvous
