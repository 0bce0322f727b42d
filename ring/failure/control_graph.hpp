// The graph of control connections between ranks. At the start each rank has connections to the ranks at distances 2^i.
// When ranks leave, the remaining ranks must stay connected, so that messages reach all of them. Each remaining rank
// connects to the nearest lower remaining rank. A rank without a connection to a higher rank, such as the highest one,
// also connects to the lowest remaining rank.
//
// If all ranks that could have passed on a rank's goodbye have left too, the remaining ranks do not receive the
// goodbye. A rank then cannot connect to the rank that left, and tries the next rank. Pure: no sockets, no clock (time
// is passed in); one thread. The FailureDetector owns this graph.
#pragma once
#include <chrono>
#include <optional>
#include <set>
#include <vector>

namespace anello::failure {

// Returns the initial neighbours: the ranks at distances 2^i in both directions, in ascending order. So connections are
// few, messages need few hops, and the death of one rank does not separate other ranks.
std::vector<int> control_neighbours(int rank, int size);
// Returns, by rank, whether a path of initial connections between living ranks leads to it from this rank.
std::vector<bool> connected_with(int rank, int size, const std::set<int>& dead);

class ControlGraph {
 public:
  using Time = std::chrono::milliseconds;  // time since an arbitrary fixed point
  // Delay before new connections. Most ranks leave together, and a rank that is about to leave needs no new connection.
  // A rank whose initial neighbours have all left is reconnected at once, because otherwise no rank would notice its
  // death.
  static constexpr Time kMendAfter{100};

  ControlGraph(int rank, int size);

  void connected(int peer);
  void left(int peer, Time now);
  void unreachable(int peer);  // call if there is no connection to the peer, and none can be made

  // Returns the lower ranks to connect to now. Returns each rank once; call connected() or unreachable() for it
  // afterwards.
  std::vector<int> take_calls(Time now);
  bool is_lowest() const;           // true if all lower ranks have left or are unreachable
  std::optional<Time> due() const;  // when to call take_calls(); empty: no connection is missing

 private:
  bool is_gone(int peer) const { return gone_[std::size_t(peer)]; }
  bool is_alone(int peer) const;
  std::vector<int> wanted() const;

  int rank_;
  std::vector<bool> gone_;  // by rank: true if the rank has left or is unreachable
  std::set<int> known_;     // ranks that are connected or connecting
  std::optional<Time> mend_at_;
};

}  // namespace anello::failure
