#include "ring/net/council.hpp"

#include <algorithm>
#include <utility>

#include "ring/base/text.hpp"
#include "ring/base/wire.hpp"

namespace anello {
namespace {

constexpr std::size_t kMaxMessageBytes = 2048;

std::string encode_verdict(const Verdict& verdict) {
  Writer writer;
  writer.u8(std::uint8_t(verdict.code)).i32(verdict.culprit).str(verdict.message.substr(0, kMaxMessageBytes));
  return std::move(writer).take();
}

Verdict decode_verdict(Reader& reader, int world) {
  Verdict verdict;
  verdict.code = Code(reader.u8());
  verdict.culprit = reader.i32();
  verdict.message = reader.str(kMaxMessageBytes);
  if (verdict.culprit < -1 || verdict.culprit >= world)
    throw Error(Code::protocol, text("control message: rank ", verdict.culprit, " of ", world));
  return verdict;
}

}  // namespace

Council::Council(int rank, std::vector<std::string> hosts) : rank_(rank) {
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

void Council::flood(Type type, std::string_view body) {
  Writer writer;
  writer.i32(rank_).u32(++number_).u8(std::uint8_t(type)).raw(body);
  first_sight(members_[std::size_t(rank_)], number_);
  outbox_.push_back(std::move(writer).take());
}

void Council::flood_verdict(Type type, const Verdict& verdict) {
  flood(type, encode_verdict(verdict));
}

void Council::receive(std::string_view frame, Time now) {
  Reader reader("control", frame);
  const int origin = reader.i32();
  const std::uint32_t number = reader.u32();
  if (origin < 0 || std::size_t(origin) >= members_.size())
    throw Error(Code::protocol, text("control message: from rank ", origin, " of ", members_.size()));
  const auto type = Type(reader.u8());
  Member& member = members_[std::size_t(origin)];
  if (type < Type::proposal || type > Type::waiting)
    throw Error(Code::protocol, text("control message: unknown type ", int(type)));
  if (!first_sight(member, number)) return;
  outbox_.emplace_back(frame);

  switch (type) {
    case Type::proposal:
      consider(decode_verdict(reader, int(members_.size())));
      break;
    case Type::decision:
      if (Verdict published = decode_verdict(reader, int(members_.size())); !verdict_) verdict_ = std::move(published);
      break;
    case Type::goodbye:
      member.left = reader.u64();
      ends_at_ = std::min(ends_at_, *member.left);
      break;
    case Type::waiting:
      member.waiting = decode_signature(reader.raw(kSignatureBytes));
      compare(origin, now);
      break;
  }
  reader.finish();
}

Verdict Council::dead(int rank, std::string_view how) const {
  return {Code::rank_dead, rank, text(named(rank), " died: ", how, " (found out by rank ", rank_, ")")};
}

Verdict Council::left(int rank, const Signature& needed) const {
  return {Code::rank_left, rank,
          text(named(rank), " left the world after ", *members_[std::size_t(rank)].left, " operations, but rank ",
               rank_, " calls ", describe(needed))};
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
  if (verdict_ || proposed_) return;
  proposed_ = Pending{verdict, now + kArbiterLimit};
  flood_verdict(Type::proposal, verdict);
  consider(verdict);
}

void Council::consider(const Verdict& verdict) {
  if (verdict.code == Code::rank_dead && verdict.culprit >= 0) members_[std::size_t(verdict.culprit)].dead = true;
  if (arbiter() == rank_) decide(verdict);
}

void Council::decide(const Verdict& verdict) {
  if (verdict_) return;
  verdict_ = verdict;
  flood_verdict(Type::decision, verdict);
}

void Council::abort(const Verdict& verdict) {
  decide(verdict);
}

void Council::waiting(const Signature& mine, Time now) {
  members_[std::size_t(rank_)].waiting = mine;
  const auto bytes = encode(mine);
  flood(Type::waiting, {bytes.data(), bytes.size()});
  compare(rank_, now);
}

// Only operations of the same number: a rank that is behind may yet come.
void Council::compare(int rank, Time now) {
  const Signature& news = *members_[std::size_t(rank)].waiting;
  for (int other = 0; other < int(members_.size()); other++) {
    const auto& theirs = members_[std::size_t(other)].waiting;
    if (!theirs || theirs->sequence != news.sequence) continue;
    const auto [low, high] = std::minmax(rank, other);
    const std::string why =
        difference(low, *members_[std::size_t(low)].waiting, high, *members_[std::size_t(high)].waiting);
    if (!why.empty()) return propose({Code::mismatch, high, why}, now);
  }
}

void Council::needs(const Signature& mine, Time now) {
  for (int rank = 0; rank < int(members_.size()); rank++)
    if (const auto& gone = members_[std::size_t(rank)].left; gone && *gone <= mine.sequence)
      return propose(left(rank, mine), now);
}

void Council::goodbye(std::uint64_t completed) {
  Writer writer;
  flood(Type::goodbye, writer.u64(completed).bytes());
}

void Council::tick(Time now) {
  for (auto it = suspects_.begin(); it != suspects_.end();) {
    if (it->second.due > now) {
      ++it;
      continue;
    }
    const Pending due = std::exchange(it->second, {});
    it = suspects_.erase(it);
    if (!has_left(due.verdict.culprit)) propose(due.verdict, now);
  }
  if (proposed_ && !verdict_ && proposed_->due <= now) decide(proposed_->verdict);
}

std::optional<Council::Time> Council::due() const {
  if (verdict_) return std::nullopt;
  std::optional<Time> first;
  if (proposed_) first = proposed_->due;
  for (const auto& [rank, pending] : suspects_) first = std::min(first.value_or(pending.due), pending.due);
  return first;
}

std::vector<std::string> Council::take_outbox() {
  return std::exchange(outbox_, {});
}

}  // namespace anello
