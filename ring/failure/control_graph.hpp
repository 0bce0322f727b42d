// Which ranks have control connections with each other. At the start each has them with the ranks 2^i away. When ranks
// leave, those that remain must stay connected, so that messages reach all of them: each remaining rank connects to the
// nearest lower one that remains, and one without a connection to a higher rank also to the lowest, as the highest. It
// may not know that a rank has left, because all ranks that could have passed the goodbye on left too: it then cannot
// connect to that rank, and goes on to the next.
// Pure: no sockets, no clock (time is passed in); one thread. The FailureDetector owns it.
#pragma once
#include <chrono>
#include <optional>
#include <set>
#include <vector>

namespace anello::failure {

// The control graph at the start: the ranks 2^i away in both directions, in order. Few connections, few hops, and no
// single rank whose death separates others.
std::vector<int> control_neighbours(int rank, int size);

class ControlGraph {
 public:
  using Time = std::chrono::milliseconds;  // since any fixed point
  // Most ranks leave together. A rank that leaves as well needs no new connections. Only a rank whose neighbours of the
  // start have all left is connected at once: no other rank would notice its death meanwhile.
  static constexpr Time kMendAfter{100};

  ControlGraph(int rank, int size);

  void connected(int peer);
  void left(int peer, Time now);
  void unreachable(int peer);  // there is no connection, and it cannot be made

  // Lower ranks to connect to now. Each is returned once; connected() or unreachable() must follow.
  std::vector<int> take_calls(Time now);
  bool is_lowest() const;           // all lower ranks have left or are unreachable
  std::optional<Time> due() const;  // call take_calls() then; nothing: no connection is missing

 private:
  bool is_gone(int peer) const { return gone_[std::size_t(peer)]; }
  bool is_alone(int peer) const;
  std::vector<int> wanted() const;

  int rank_;
  std::vector<bool> gone_;  // by rank: has left or is unreachable
  std::set<int> known_;     // connected, or connecting
  std::optional<Time> mend_at_;
};

}  // namespace anello::failure
