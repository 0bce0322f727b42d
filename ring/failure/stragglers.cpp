#include "ring/failure/stragglers.hpp"

#include <utility>

#include "ring/base/text.hpp"

namespace anello::failure {
namespace {
// Fractions of the period: a rank that sleeps for more than kMuch of it reports a peer that sleeps for less than
// kLittle.
constexpr double kMuch = 0.5, kLittle = 0.1;
}  // namespace

void StragglerDetector::received(int peer, Time slept) {
  peers_[peer].newest = slept;
}

void StragglerDetector::remove(int peer) {
  peers_.erase(peer);
}

void StragglerDetector::begin_period(Groups mine, Time now) {
  begun_ = true;
  began_ = now;
  at_begin_ = std::move(mine);
  for (auto& [rank, peer] : peers_) {
    peer.at_begin = peer.newest;
    peer.all_along = true;
  }
}

std::vector<Straggler> StragglerDetector::check(Groups mine, Time now) {
  std::map<int, Straggler> found;
  const Time passed = now - began_;
  for (const auto& [id, group] : mine) {
    const auto before = at_begin_.find(id);
    if (before == at_begin_.end() || group.completed == before->second.completed) continue;
    const Time own = group.slept - before->second.slept;
    if (own <= kMuch * passed) continue;
    for (const int member : group.members)
      if (const auto peer = peers_.find(member); peer != peers_.end() && peer->second.all_along)
        if (const Time theirs = peer->second.newest - peer->second.at_begin; theirs < kLittle * passed)
          found.try_emplace(member, Straggler{member, own, theirs, passed});
  }
  begin_period(std::move(mine), now);
  std::vector<Straggler> stragglers;
  for (const auto& [rank, straggler] : found) stragglers.push_back(straggler);
  return stragglers;
}

std::optional<std::string> StragglerReports::report(int complainant, const Straggler& straggler, Time now) {
  Reported& its = reported_[straggler.rank];
  if (its.quiet == Time(0) || now > its.complaint + kQuiet) its = {.next = now, .quiet = kQuiet};
  its.complaint = now;
  if (now < its.next) return std::nullopt;
  its.next = now + its.quiet;
  its.quiet *= 2;
  return text(view_.named(straggler.rank), " keeps others waiting: of the last ", straggler.period.count(), " ms ",
              view_.named(complainant), " spent ", straggler.own.count(), " asleep in operations, rank ",
              straggler.rank, " only ", straggler.theirs.count());
}

}  // namespace anello::failure
