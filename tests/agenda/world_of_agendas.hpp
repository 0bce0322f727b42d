// The agendas of all ranks of a group, and the messages that are under way between them.
#pragma once
#include <gmock/gmock.h>

#include <deque>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "ring/agenda/agenda.hpp"
#include "tests/support/random.hpp"

namespace anello::agenda {

inline Description allreduce_of(std::vector<std::uint64_t> shape) {
  return {.verb = Verb::allreduce, .arrays = {{DType::f32, std::move(shape)}}};
}
inline Description allgather_of(std::vector<std::uint64_t> rows) {
  return {.verb = Verb::allgather, .arrays = {{DType::f32, std::move(rows)}}};
}

class WorldOfAgendas {
 public:
  explicit WorldOfAgendas(int ranks, const Agenda::SuitsList& suits_list = nullptr)
      : decisions_(std::size_t(ranks)), lost_(std::size_t(ranks)) {
    std::vector<int> members(static_cast<std::size_t>(ranks));
    std::iota(members.begin(), members.end(), 0);
    for (int rank = 0; rank < ranks; rank++) agendas_.emplace_back(rank, members, suits_list);
  }

  int size() const { return int(agendas_.size()); }
  Agenda& operator[](int rank) { return agendas_[std::size_t(rank)]; }
  std::vector<Decision>& decisions(int rank) { return decisions_[std::size_t(rank)]; }
  int messages() const { return messages_; }
  std::size_t bytes() const { return bytes_; }

  // Sends the messages of a rank.
  void send(int from) {
    if (lost_[std::size_t(from)]) return;
    for (const int to : (*this)[from].neighbours()) {
      std::string message = (*this)[from].say(to);
      if (message.empty()) continue;
      messages_++;
      bytes_ += message.size();
      under_way_[{from, to}].push_back(std::move(message));
    }
  }

  // Delivers one message of a random pair of ranks. Returns false if no message is under way.
  bool deliver(Random& random) {
    std::vector<std::pair<int, int>> pairs;
    for (const auto& [pair, messages] : under_way_)
      if (!messages.empty()) pairs.push_back(pair);
    if (pairs.empty()) return false;
    const auto pair = pairs[std::size_t(random.below(pairs.size()))];
    const std::string message = std::move(under_way_[pair].front());
    under_way_[pair].pop_front();
    if (lost_[std::size_t(pair.second)]) return true;
    (*this)[pair.second].receive(pair.first, message);
    collect(pair.second);
    return true;
  }

  void collect(int rank) {
    for (Decision& decision : (*this)[rank].decide()) {
      if (decision.mine && !decision.key.empty()) (*this)[rank].release(decision.key);
      decisions(rank).push_back(std::move(decision));
    }
  }

  void settle() {
    Random random(1);
    do
      for (int rank = 0; rank < size(); rank++) {
        collect(rank);
        send(rank);
      }
    while (deliver(random));
  }

  // Ends the rank's process. Some of its messages under way may still arrive.
  void kill(int rank, Random& random) {
    lost_[std::size_t(rank)] = true;
    for (auto& [pair, messages] : under_way_)
      if (pair.first == rank) messages.resize(random.below(messages.size() + 1));
  }
  bool is_dead(int rank) const { return lost_[std::size_t(rank)]; }

 private:
  std::vector<Agenda> agendas_;
  std::vector<std::vector<Decision>> decisions_;
  std::vector<bool> lost_;
  std::map<std::pair<int, int>, std::deque<std::string>> under_way_;
  int messages_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace anello::agenda
