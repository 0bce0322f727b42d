#include "ring/net/council.hpp"

#include <algorithm>
#include <utility>

#include "ring/base/text.hpp"

namespace anello {

Council::Council(int rank, std::vector<std::string> hosts, Recall recall) : rank_(rank), recall_(std::move(recall)) {
  for (std::string& host : hosts) members_.push_back({.host = std::move(host)});
}

std::string Council::named(int rank) const {
  return text("rank ", rank, " on ", members_[std::size_t(rank)].host);
}

int Council::arbiter() const {
  const auto alive = std::find_if(members_.begin(), members_.end(), [](const Member& m) { return !m.dead && !m.left; });
  return alive == members_.end() ? rank_ : int(alive - members_.begin());
}

// A window of 64 numbers: what is older has long been seen.
bool Council::first_sight(Member& origin, std::uint32_t number) {
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

void Council::flood(Frame frame) {
  frame.origin = rank_;
  frame.number = ++number_;
  first_sight(members_[std::size_t(rank_)], number_);
  outbox_.push_back(encode(frame));
}

void Council::receive(std::string_view bytes, Time now) {
  Frame frame = decode_frame(bytes, int(members_.size()));
  if (!first_sight(members_[std::size_t(frame.origin)], frame.number)) return;
  outbox_.emplace_back(bytes);
  act(std::move(frame), now);
}

void Council::act(Frame frame, Time now) {
  Member& member = members_[std::size_t(frame.origin)];
  switch (frame.type) {
    case Frame::Type::proposal:
      consider(frame.origin, frame.verdict, now);
      break;
    case Frame::Type::decision:
      if (!verdict_) verdict_ = std::move(frame.verdict);
      break;
    case Frame::Type::goodbye:
      member.left = frame.completed;
      member.last = std::move(frame.signatures);
      ends_at_ = std::min(ends_at_, frame.completed);
      compare(frame.origin, now);
      break;
    case Frame::Type::waiting:
      member.waiting = frame.signatures.front();
      compare(frame.origin, now);
      break;
  }
}

Verdict Council::dead(int rank, std::string_view how) const {
  return {Code::rank_dead, rank, text(named(rank), " died: ", how, " (found out by rank ", rank_, ")")};
}

Verdict Council::left(int rank, std::string_view but) const {
  return {Code::rank_left, rank,
          text(named(rank), " left the world after ", *members_[std::size_t(rank)].left, " operations, but rank ",
               rank_, " ", but)};
}

void Council::lost(int rank, std::string_view how, Time now) {
  if (has_left(rank)) return;
  members_[std::size_t(rank)].dead = true;
  propose(dead(rank, how), now);
}

void Council::suspect(int rank, std::string_view how, Time now) {
  if (!verdict_) suspects_.try_emplace(rank, Pending{dead(rank, how), now + kSuspicionLimit});
}

void Council::propose(const Verdict& verdict, Time now) {
  if (verdict_ || proposals_.contains(rank_)) return;
  Verdict cut = verdict;
  cut.message.resize(std::min(cut.message.size(), Frame::kMaxMessageBytes));
  flood({.type = Frame::Type::proposal, .verdict = cut});
  consider(rank_, cut, now);
}

void Council::consider(int origin, const Verdict& verdict, Time now) {
  if (verdict.code == Code::rank_dead && verdict.culprit >= 0) members_[std::size_t(verdict.culprit)].dead = true;
  proposals_.try_emplace(origin, verdict);
  if (!decide_by_) decide_by_ = now + kArbiterLimit;
  if (arbiter() == rank_) decide(verdict);
}

void Council::decide(const Verdict& verdict) {
  if (verdict_) return;
  verdict_ = verdict;
  flood({.type = Frame::Type::decision, .verdict = verdict});
}

void Council::waiting(const Signature& mine, Time now) {
  members_[std::size_t(rank_)].waiting = mine;
  Frame frame{.type = Frame::Type::waiting};
  frame.signatures.push_back(mine);
  flood(std::move(frame));
  compare(rank_, now);
}

// What the rank called as its operation of that number, as far as is known here.
std::optional<Signature> Council::called(int rank, std::uint64_t sequence) const {
  const Member& member = members_[std::size_t(rank)];
  if (member.waiting && member.waiting->sequence == sequence) return member.waiting;
  if (rank == rank_) return recall_(sequence);
  for (const Signature& signature : member.last)
    if (signature.sequence == sequence) return signature;
  return std::nullopt;
}

// Does one of them wait in an operation that was another one for the other? A rank that is behind may yet come; one
// that is ahead has come through, but maybe through something else.
bool Council::compare(int rank, int other, Time now) {
  const std::optional<Signature>& waits = members_[std::size_t(rank)].waiting;
  if (!waits) return false;
  const std::optional<Signature> theirs = called(other, waits->sequence);
  if (!theirs) return false;
  const std::string why =
      rank < other ? difference(rank, *waits, other, *theirs) : difference(other, *theirs, rank, *waits);
  if (!why.empty()) propose({Code::mismatch, std::max(rank, other), why}, now);
  return !why.empty();
}

void Council::compare(int rank, Time now) {
  for (int other = 0; other < int(members_.size()); other++)
    if (compare(rank, other, now) || compare(other, rank, now)) return;
}

void Council::needs(const Signature& mine, Time now) {
  for (int rank = 0; rank < int(members_.size()); rank++)
    if (const auto& gone = members_[std::size_t(rank)].left; gone && *gone <= mine.sequence)
      return propose(left(rank, "calls " + describe(mine)), now);
}

void Council::goodbye(std::uint64_t completed) {
  Frame frame{.type = Frame::Type::goodbye, .completed = completed};
  for (std::uint64_t sequence = completed - std::min<std::uint64_t>(completed, kLast); sequence < completed; sequence++)
    if (const auto signature = recall_(sequence)) frame.signatures.push_back(*signature);
  flood(std::move(frame));
}

void Council::tick(Time now) {
  for (auto it = suspects_.begin(); it != suspects_.end();) {
    if (it->second.due > now) {
      ++it;
      continue;
    }
    const int rank = it->first;
    propose(has_left(rank) ? left(rank, "still expected data from it") : it->second.verdict, now);
    it = suspects_.erase(it);
  }
  if (!verdict_ && decide_by_ && *decide_by_ <= now) decide(proposals_.begin()->second);
}

std::optional<Council::Time> Council::due() const {
  if (verdict_) return std::nullopt;
  std::optional<Time> first = decide_by_;
  for (const auto& [rank, pending] : suspects_) first = std::min(first.value_or(pending.due), pending.due);
  return first;
}

std::vector<std::string> Council::take_outbox() {
  return std::exchange(outbox_, {});
}

}  // namespace anello
