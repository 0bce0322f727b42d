#include "rendezvous/launch/processes/rank_table.hpp"

#include "rendezvous/launch/base/signals.hpp"
#include "ring/base/rank_list.hpp"

namespace anello::launch {

void RankTable::started(int rank, pid_t pid) {
  at(rank).alive = true;
  at(rank).pid = pid;
  at(rank).stop.reset();
  alive_count_++;
  any_started_ = true;
}

void RankTable::ended(int rank, bool succeeded) {
  at(rank).alive = false;
  at(rank).succeeded = succeeded;
  alive_count_--;
  ended_count_++;
}

void RankTable::lost(int rank) {
  if (at(rank).alive) ended(rank, false);
}

std::vector<int> RankTable::alive() const {
  std::vector<int> out;
  for (std::size_t rank = 0; rank < ranks_.size(); rank++)
    if (ranks_[rank].alive) out.push_back(int(rank));
  return out;
}

bool RankTable::all_are_stopped() const {
  return std::ranges::all_of(ranks_, [](const Rank& rank) { return !rank.alive || rank.stop.has_value(); });
}

Clock::time_point RankTable::last_stop(Clock::time_point before) const {
  for (const Rank& rank : ranks_)
    if (rank.alive && rank.stop) before = std::max(before, rank.stop->since);
  return before;
}

std::string RankTable::stop_signals() const {
  std::vector<int> signals;
  for (const Rank& rank : ranks_)
    if (rank.alive && rank.stop && std::ranges::find(signals, rank.stop->signal) == signals.end())
      signals.push_back(rank.stop->signal);
  std::string out;
  for (const int signal : signals) out += (out.empty() ? "" : ", ") + signal_text(signal);
  return out;
}

std::string RankTable::list() const {
  return alive_count_ == 0 ? "processes that ranks started" : rank_list(alive());
}

}  // namespace anello::launch
