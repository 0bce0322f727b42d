// Councils joined by a flood in memory: frames are delivered late, in any order, twice, or not at all to ranks that are
// dead, stopped or cut off. Everything follows from one seed. One thread.
#pragma once
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ring/failure/agreement.hpp"
#include "tests/support/random.hpp"

namespace anello {

class Assembly {
 public:
  using Time = FailureAgreement::Time;

  Assembly(int size, std::uint64_t seed) : random_(seed) {
    const std::vector<std::string> hosts = host_names(size);
    for (int rank = 0; rank < size; rank++) seats_.push_back(std::make_unique<Seat>(rank, hosts));
  }
  static std::vector<std::string> host_names(int size) {
    std::vector<std::string> hosts;
    for (int rank = 0; rank < size; rank++) hosts.push_back(text("host", rank));
    return hosts;
  }

  int size() const { return int(seats_.size()); }
  Time now() const { return now_; }
  FailureAgreement& operator[](int rank) { return seat(rank).council; }
  Random& random() { return random_; }

  // The rank begins its next operation.
  void begin(int rank, const Signature& signature) { seat(rank).begun.push_back(signature); }

  // Ends without a word; the neighbours notice, each when it comes to it.
  void kill(int rank) {
    seat(rank).mute = true;
    for (const int other : neighbours(rank)) notices_.push_back({other, rank});
  }
  void stop(int rank) { seat(rank).mute = true; }  // nobody is told
  void cut(int a, int b) { cut_.insert(std::minmax(a, b)); }

  // One frame or notice, drawn at random. False if there is none.
  bool step() {
    collect();
    const std::size_t pending = in_flight_.size() + notices_.size();
    if (pending == 0) return false;
    const std::size_t pick = random_.below(pending);
    if (pick < in_flight_.size())
      deliver(pick);
    else
      notice(pick - in_flight_.size());
    return true;
  }
  void settle() {
    while (step()) {
    }
  }
  void settle_partly() {
    for (std::uint64_t steps = random_.below(20); steps > 0 && step(); steps--) {
    }
  }

  // All timers that are due by then, each at its time and before anything is delivered; then all frames.
  void advance(Time by) {
    settle();
    now_ += by;
    for (const auto& s : seats_)
      if (const auto due = s->council.due(); due && *due <= now_ && !s->mute) s->council.tick(now_);
    settle();
  }

  // Ranks that are neither dead nor stopped.
  std::vector<int> speaking() const {
    std::vector<int> ranks;
    for (int rank = 0; rank < size(); rank++)
      if (!seats_[std::size_t(rank)]->mute) ranks.push_back(rank);
    return ranks;
  }

 private:
  struct Seat {
    Seat(int rank, const std::vector<std::string>& hosts)
        : council(rank, hosts, [this](std::uint64_t group, std::uint64_t sequence) -> std::optional<Signature> {
            for (const Signature& signature : begun)
              if (signature.group == group && signature.sequence == sequence) return signature;
            return std::nullopt;
          }) {}
    std::vector<Signature> begun;
    bool mute = false;
    FailureAgreement council;
  };
  struct InFlight {
    int to;
    std::string bytes;
  };
  struct Notice {
    int to, about;
  };

  Seat& seat(int rank) { return *seats_[std::size_t(rank)]; }

  // As in ControlPlane: the ranks 2^i away.
  std::vector<int> neighbours(int rank) const {
    std::set<int> ranks;
    for (int step = 1; step < size(); step *= 2)
      for (const int other : {(rank + step) % size(), (rank + size() - step) % size()})
        if (other != rank && !cut_.contains(std::minmax(rank, other))) ranks.insert(other);
    return {ranks.begin(), ranks.end()};
  }

  void collect() {
    for (int rank = 0; rank < size(); rank++)
      for (const std::string& frame : seat(rank).council.take_outbox())
        for (const int to : neighbours(rank))
          if (!seat(rank).mute) in_flight_.push_back({to, frame});
  }

  void deliver(std::size_t pick) {
    std::swap(in_flight_[pick], in_flight_.back());
    const InFlight frame = in_flight_.back();
    if (!random_.percent(10)) in_flight_.pop_back();  // else it comes once more
    if (!seat(frame.to).mute) seat(frame.to).council.receive(frame.bytes, now_);
  }

  void notice(std::size_t pick) {
    std::swap(notices_[pick], notices_.back());
    const Notice n = notices_.back();
    notices_.pop_back();
    if (!seat(n.to).mute) seat(n.to).council.lost(n.about, "its control connection was closed", now_);
  }

  Random random_;
  std::vector<std::unique_ptr<Seat>> seats_;
  std::set<std::pair<int, int>> cut_;
  std::vector<InFlight> in_flight_;
  std::vector<Notice> notices_;
  Time now_{1000};
};

}  // namespace anello
