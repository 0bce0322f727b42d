#include "ring/failure/stragglers.hpp"

namespace anello {
namespace {
// Shares of the time: a rank that waits for more than the first has reason to complain of one that waits for less than
// the second.
constexpr double kMuch = 0.5, kLittle = 0.1;
}  // namespace

void StragglerDetector::told(int peer, Time waited) {
  peers_[peer].newest = waited;
}

void StragglerDetector::left(int peer) {
  peers_.erase(peer);
}

void StragglerDetector::begin(Time waited, Time now) {
  begun_ = true;
  began_ = now;
  own_at_begin_ = waited;
  for (auto& [peer, waits] : peers_) {
    waits.at_begin = waits.newest;
    waits.all_along = true;
  }
}

std::vector<Straggler> StragglerDetector::look(Time waited, Time now) {
  std::vector<Straggler> found;
  if (begun_ && now < began_ + period_) return found;
  const Time passed = now - began_, own = waited - own_at_begin_;
  if (begun_ && own > kMuch * passed)
    for (const auto& [peer, waits] : peers_)
      if (const Time theirs = waits.newest - waits.at_begin; waits.all_along && theirs < kLittle * passed)
        found.push_back({peer, own, theirs, passed});
  begin(waited, now);
  return found;
}

}  // namespace anello
