// The FailureDetectors of a world, with the control plane simulated in memory: messages are delivered late, in any
// order, twice, or not at all to ranks that are dead, stopped or cut off. Everything follows from one seed. One thread.
#pragma once
#include <memory>
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

  Assembly(int size, std::uint64_t seed);
  ~Assembly();
  static std::vector<std::string> host_names(int size);

  int size() const { return int(ranks_.size()); }
  Time now() const { return now_; }
  failure::FailureDetector& operator[](int rank);
  Random& random() { return random_; }

  // The rank begins its next operation.
  void begin(int rank, const Signature& signature);

  // The rank ends without a goodbye. The neighbours notice that their connections ended, each after a random delay.
  void kill(int rank);
  // The rank leaves the world, and ends as soon as its goodbye is on its way: it passes nothing on any more.
  void depart(int rank, std::uint64_t completed = 0);
  void stop(int rank);  // its neighbours do not notice this
  // The rank does not run. Messages to it arrive when it resumes.
  void pause(int rank);
  void resume(int rank);
  void cut(int a, int b);

  // Delivers one message or notice, drawn at random. Returns false if there is none.
  bool step();
  void deliver_all();
  void deliver_some();

  // Delivers everything, moves the clock, calls every timer that is due before it delivers anything else, and delivers
  // everything again.
  void advance(Time by);
  void run(Time by);  // the same in steps of 10 ms

  // Ranks that are neither dead nor stopped.
  std::vector<int> alive() const;

 private:
  struct Rank;
  struct InFlight {
    int to;
    std::string bytes;
  };
  struct Notice {
    int to, about;
  };

  Rank& at(int rank) { return *ranks_[std::size_t(rank)]; }
  std::vector<int> neighbours(int rank) const;
  void connect();
  void connect(int rank, int peer);
  void pass_on(unsigned percent);
  void collect();
  void deliver(std::size_t pick);
  void notice(std::size_t pick);

  Random random_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<std::set<int>> connections_;  // by rank
  std::set<std::pair<int, int>> cut_;
  std::vector<InFlight> in_flight_, held_;
  std::vector<Notice> notices_, held_notices_;
  Time now_{1000};
};

}  // namespace anello
