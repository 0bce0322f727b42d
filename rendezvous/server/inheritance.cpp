#include "rendezvous/server/inheritance.hpp"

#include <algorithm>

#include "ring/base/text.hpp"

namespace anello::rendezvous {

void Inheritance::found(const Peer& peer, Finding what, Time now) {
  if (dead_.contains(peer)) return;
  lost_.erase(peer);
  if (what != Finding::silent) silent_since_.erase(peer);
  if (what == Finding::dead) dead_.insert(peer);
  const bool is_lost = what == Finding::gone ||
                       (what == Finding::silent && now - silent_since_.emplace(peer, now).first->second >= patience_);
  if (is_lost) lost_.insert(peer);
}

bool Inheritance::awaits_nobody(const std::set<int>& come) const {
  const Peers& newest = lineage_.newest();
  for (int rank = 0; rank < int(newest.size()); rank++) {
    const Peer& peer = newest[std::size_t(rank)];
    if (!come.contains(rank) && !dead_.contains(peer) && !lost_.contains(peer)) return false;
  }
  return true;
}

bool Inheritance::allows(const std::set<int>& come) const {
  std::set<Peer> here;
  for (const int rank : come) here.insert(lineage_.newest().at(std::size_t(rank)));
  return std::ranges::all_of(lineage_.worlds, [&](const Peers& world) {
    const auto present = std::ranges::count_if(world, [&](const Peer& one) { return here.contains(one); });
    return 2 * std::size_t(present) > world.size() ||
           std::ranges::all_of(world, [&](const Peer& one) { return here.contains(one) || dead_.contains(one); });
  });
}

std::string Inheritance::missing(const std::set<int>& come) const {
  const Peers& newest = lineage_.newest();
  std::string all;
  for (int rank = 0; rank < int(newest.size()); rank++) {
    const Peer& peer = newest[std::size_t(rank)];
    if (come.contains(rank)) continue;
    const char* const why = dead_.contains(peer)   ? "has ended"
                            : lost_.contains(peer) ? "cannot be reached"
                                                   : "has not come yet";
    all += text(all.empty() ? "" : ", ", "rank ", rank, " (", describe(peer), ", which ", why, ")");
  }
  return all;
}

}  // namespace anello::rendezvous
