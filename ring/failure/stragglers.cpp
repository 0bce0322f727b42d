#include "ring/failure/stragglers.hpp"

#include "ring/base/text.hpp"

namespace anello::failure {
namespace {
// Shares of the time: a rank that sleeps for more than the first names a peer that sleeps for less than the second.
constexpr double kMuch = 0.5, kLittle = 0.1;
}  // namespace

void StragglerDetector::received(int peer, Time slept) {
  peers_[peer].newest = slept;
}

void StragglerDetector::remove(int peer) {
  peers_.erase(peer);
}

void StragglerDetector::begin_period(Time slept, Time now) {
  begun_ = true;
  began_ = now;
  own_at_begin_ = slept;
  for (auto& [rank, peer] : peers_) {
    peer.at_begin = peer.newest;
    peer.all_along = true;
  }
}

std::vector<Straggler> StragglerDetector::check(Time slept, Time now) {
  std::vector<Straggler> found;
  if (begun_ && now < began_ + period_) return found;
  const Time passed = now - began_, own = slept - own_at_begin_;
  if (begun_ && own > kMuch * passed)
    for (const auto& [rank, peer] : peers_)
      if (const Time theirs = peer.newest - peer.at_begin; peer.all_along && theirs < kLittle * passed)
        found.push_back({rank, own, theirs, passed});
  begin_period(slept, now);
  return found;
}

std::optional<std::string> StragglerReports::report(int complainant, const Straggler& straggler, Time now) {
  const auto last = reported_.find(straggler.rank);
  if (last != reported_.end() && now < last->second + kQuiet) return std::nullopt;
  reported_[straggler.rank] = now;
  return text(view_.named(straggler.rank), " keeps others waiting: of the last ", straggler.period.count(), " ms ",
              view_.named(complainant), " spent ", straggler.own.count(), " asleep in operations, rank ",
              straggler.rank, " only ", straggler.theirs.count());
}

}  // namespace anello::failure
