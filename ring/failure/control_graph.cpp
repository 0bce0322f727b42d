#include "ring/failure/control_graph.hpp"

#include <algorithm>

namespace anello::failure {

std::vector<int> control_neighbours(int rank, int size) {
  std::vector<int> ranks;
  for (int step = 1; step < size; step *= 2)
    for (const int other : {(rank + step) % size, (rank + size - step) % size})
      if (std::find(ranks.begin(), ranks.end(), other) == ranks.end()) ranks.push_back(other);
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

std::vector<bool> connected_with(int rank, int size, const std::set<int>& dead) {
  std::vector<bool> reached(std::size_t(size), false);
  std::vector<int> next{rank};
  reached[std::size_t(rank)] = true;
  while (!next.empty()) {
    const int at = next.back();
    next.pop_back();
    for (const int other : control_neighbours(at, size))
      if (!reached[std::size_t(other)] && !dead.contains(other)) {
        reached[std::size_t(other)] = true;
        next.push_back(other);
      }
  }
  return reached;
}

ControlGraph::ControlGraph(int rank, int size) : rank_(rank), gone_(std::size_t(size)) {
  for (const int peer : control_neighbours(rank, size)) known_.insert(peer);
}

void ControlGraph::connected(int peer) {
  known_.insert(peer);
}

void ControlGraph::left(int peer, Time now) {
  gone_[std::size_t(peer)] = true;
  const std::vector<int> ranks = wanted();
  if (ranks.empty()) return;
  const bool at_once =
      is_alone(rank_) || std::any_of(ranks.begin(), ranks.end(), [this](int each) { return is_alone(each); });
  mend_at_ = std::min(mend_at_.value_or(Time::max()), at_once ? now : now + kMendAfter);
}

bool ControlGraph::is_alone(int peer) const {
  const std::vector<int> neighbours = control_neighbours(peer, int(gone_.size()));
  return std::all_of(neighbours.begin(), neighbours.end(), [this](int each) { return is_gone(each); });
}

void ControlGraph::unreachable(int peer) {
  gone_[std::size_t(peer)] = true;
  if (!mend_at_ && !wanted().empty()) mend_at_ = Time(0);
}

bool ControlGraph::is_lowest() const {
  return std::all_of(gone_.begin(), gone_.begin() + rank_, [](bool gone) { return gone; });
}

std::vector<int> ControlGraph::wanted() const {
  std::vector<int> ranks;
  int below = rank_ - 1, lowest = 0;
  while (below >= 0 && is_gone(below)) below--;
  while (lowest < rank_ && is_gone(lowest)) lowest++;
  const bool has_higher =
      std::any_of(known_.upper_bound(rank_), known_.end(), [this](int peer) { return !is_gone(peer); });
  if (below >= 0 && !known_.contains(below)) ranks.push_back(below);
  if (!has_higher && lowest < below && !known_.contains(lowest)) ranks.push_back(lowest);
  return ranks;
}

std::vector<int> ControlGraph::take_calls(Time now) {
  if (!mend_at_ || now < *mend_at_) return {};
  mend_at_.reset();
  std::vector<int> calls = wanted();
  known_.insert(calls.begin(), calls.end());
  return calls;
}

std::optional<ControlGraph::Time> ControlGraph::due() const {
  return mend_at_;
}

}  // namespace anello::failure
