// The FailureDetectors of a world, with the control plane simulated in memory: messages are delivered late, in any
// order, twice, or not at all to ranks that are dead, stopped or cut off. Everything follows from one seed. One thread.
#pragma once
#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ring/failure/failure_detector.hpp"
#include "tests/support/random.hpp"

namespace anello {

class Assembly {
 public:
  using Time = failure::FailureDetector::Time;

  Assembly(int size, std::uint64_t seed) : random_(seed) {
    const std::vector<std::string> hosts = host_names(size);
    for (int rank = 0; rank < size; rank++) {
      ranks_.push_back(std::make_unique<Rank>(rank, hosts));
      const std::vector<int> others = failure::control_neighbours(rank, size);
      connections_.emplace_back(others.begin(), others.end());
    }
  }
  static std::vector<std::string> host_names(int size) {
    std::vector<std::string> hosts;
    for (int rank = 0; rank < size; rank++) hosts.push_back(text("host", rank));
    return hosts;
  }

  int size() const { return int(ranks_.size()); }
  Time now() const { return now_; }
  failure::FailureDetector& operator[](int rank) { return at(rank).detector; }
  Random& random() { return random_; }

  // The rank begins its next operation.
  void begin(int rank, const Signature& signature) { at(rank).begun.push_back(signature); }

  // Ends without a goodbye. The neighbours notice that their connections ended, each after a random delay.
  void kill(int rank) {
    at(rank).is_down = true;
    for (const int other : neighbours(rank)) notices_.push_back({other, rank});
  }
  // Leaves the world, and ends as soon as its goodbye is on its way: it passes nothing on any more.
  void depart(int rank, std::uint64_t completed = 0) {
    at(rank).detector.leave(0, completed);
    collect();
    at(rank).is_down = true;
  }
  void stop(int rank) { at(rank).is_down = true; }  // nobody notices
  // It does not run. What it is sent meanwhile arrives when it resumes.
  void pause(int rank) { at(rank).is_paused = true; }
  void resume(int rank) {
    at(rank).is_paused = false;
    at(rank).detector.stood_still(now_);
    in_flight_.insert(in_flight_.end(), held_.begin(), held_.end());
    notices_.insert(notices_.end(), held_notices_.begin(), held_notices_.end());
    held_.clear();
    held_notices_.clear();
  }
  void cut(int a, int b) { cut_.insert(std::minmax(a, b)); }

  // Delivers one message or notice, drawn at random. False if there is none.
  bool step() {
    collect();
    connect();
    pass_on(in_flight_.empty() ? 100 : 5);
    const std::size_t pending = in_flight_.size() + notices_.size();
    if (pending == 0) return false;
    const std::size_t pick = random_.below(pending);
    if (pick < in_flight_.size())
      deliver(pick);
    else
      notice(pick - in_flight_.size());
    return true;
  }
  void deliver_all() {
    while (step()) {
    }
  }
  void deliver_some() {
    for (std::uint64_t steps = random_.below(20); steps > 0 && step(); steps--) {
    }
  }

  // Delivers everything, moves the clock, calls every timer that is due before it delivers anything more, and delivers
  // everything again.
  void advance(Time by) {
    deliver_all();
    now_ += by;
    for (const auto& s : ranks_)
      if (const auto due = s->detector.due(); due && *due <= now_ && !s->is_down && !s->is_paused)
        s->detector.tick(now_);
    deliver_all();
  }

  // Ranks that are neither dead nor stopped.
  std::vector<int> alive() const {
    std::vector<int> ranks;
    for (int rank = 0; rank < size(); rank++)
      if (!ranks_[std::size_t(rank)]->is_down) ranks.push_back(rank);
    return ranks;
  }

 private:
  struct Rank {
    Rank(int rank, const std::vector<std::string>& hosts)
        : detector(rank, hosts, [this](std::uint64_t group, std::uint64_t sequence) -> std::optional<Signature> {
            for (const Signature& signature : begun)
              if (signature.group == group && signature.sequence == sequence) return signature;
            return std::nullopt;
          }) {}
    std::vector<Signature> begun;
    bool is_down = false, is_paused = false;
    failure::FailureDetector detector;
  };
  struct InFlight {
    int to;
    std::string bytes;
  };
  struct Notice {
    int to, about;
  };

  Rank& at(int rank) { return *ranks_[std::size_t(rank)]; }

  std::vector<int> neighbours(int rank) const {
    const std::set<int>& all = connections_[std::size_t(rank)];
    std::vector<int> ranks(all.begin(), all.end());
    std::erase_if(ranks, [&](int other) { return cut_.contains(std::minmax(rank, other)); });
    return ranks;
  }

  // What ranks ask for after others left.
  void connect() {
    for (const int rank : alive())
      for (std::vector<int> calls; !(calls = at(rank).detector.take_calls(now_)).empty();)
        for (const int peer : calls) connect(rank, peer);
  }
  void connect(int rank, int peer) {
    if (at(peer).is_down || cut_.contains(std::minmax(rank, peer))) return at(rank).detector.unreachable(peer);
    connections_[std::size_t(rank)].insert(peer);
    connections_[std::size_t(peer)].insert(rank);
    at(rank).detector.connected(peer);
    at(peer).detector.connected(rank);
  }

  // Goodbyes that wait in ranks are passed on at any moment.
  void pass_on(unsigned percent) {
    for (const int rank : alive())
      if (!at(rank).is_paused && random_.percent(percent)) at(rank).detector.pass_on();
    collect();
  }

  void collect() {
    for (int rank = 0; rank < size(); rank++)
      for (const std::string& message : at(rank).detector.take_outbox())
        for (const int to : neighbours(rank))
          if (!at(rank).is_down) in_flight_.push_back({to, message});
  }

  void deliver(std::size_t pick) {
    std::swap(in_flight_[pick], in_flight_.back());
    const InFlight message = in_flight_.back();
    if (!random_.percent(10)) in_flight_.pop_back();  // else it is delivered again
    if (at(message.to).is_paused) return held_.push_back(message);
    if (!at(message.to).is_down) at(message.to).detector.receive(message.bytes, now_);
  }

  void notice(std::size_t pick) {
    std::swap(notices_[pick], notices_.back());
    const Notice n = notices_.back();
    notices_.pop_back();
    if (at(n.to).is_paused) return held_notices_.push_back(n);
    if (!at(n.to).is_down) at(n.to).detector.lost(n.about, "its control connection was closed", now_);
  }

  Random random_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<std::set<int>> connections_;  // by rank
  std::set<std::pair<int, int>> cut_;
  std::vector<InFlight> in_flight_, held_;
  std::vector<Notice> notices_, held_notices_;
  Time now_{1000};
};

}  // namespace anello
