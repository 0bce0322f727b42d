// The graph of control connections between ranks. At the start each rank has connections to the ranks at distances 2^i.
// When ranks leave, the remaining ranks must stay connected, so that messages reach all of them. Each remaining rank
// connects to the nearest lower remaining rank. A rank without a connection to a higher rank, such as the highest one,
// also connects to the lowest remaining rank.
//
// A rank may not learn that another rank has left, if all ranks that could have passed the goodbye on have left too. It
// then cannot connect to that rank, and tries the next one. Pure: no sockets, no clock (time is passed in); one thread.
// The FailureDetector owns it.
#pragma once
#include <chrono>
#include <optional>
#include <set>
#include <vector>

namespace anello::failure {

// Returns the initial neighbours: the ranks at distances 2^i in both directions, in ascending order. This gives few
// connections and few hops, and no single rank's death separates others.
std::vector<int> control_neighbours(int rank, int size);

class ControlGraph {
 public:
  using Time = std::chrono::milliseconds;  // time since an arbitrary fixed point
  // Delay before new connections. Most ranks leave together, and a rank that is about to leave needs no new connection.
  // A rank is reconnected at once only if all its initial neighbours have left, because then no other rank would notice
  // its death.
  static constexpr Time kMendAfter{100};

  ControlGraph(int rank, int size);

  void connected(int peer);
  void left(int peer, Time now);
  void unreachable(int peer);  // there is no connection, and none can be made

  // Returns the lower ranks to connect to now. Each is returned once; connected() or unreachable() must follow.
  std::vector<int> take_calls(Time now);
  bool is_lowest() const;           // true if all lower ranks have left or are unreachable
  std::optional<Time> due() const;  // when to call take_calls(); empty: no connection is missing

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
