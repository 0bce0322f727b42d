// A network that drops the messages between two ranks while all other pairs go on: a world of threads with a proxy
// between every two ranks, for control connections, data and pings.
#pragma once
#include "tests/faults/trial.hpp"

namespace anello::faults {

// The operations of the ranks at the time of the cut.
enum class Traffic {
  everybody,  // an alltoall: any two ranks wait for each other
  pair,       // the two ranks reduce in a group of their own
  one_way,    // the higher rank sends to the lower, and only the lower waits
  answer,     // the lower rank sends to the higher, and only the higher waits
  ring,       // an allreduce in which rank r waits directly only for rank r - 1
  idle,       // no operation
};
inline constexpr Traffic kTraffics[] = {Traffic::everybody, Traffic::pair, Traffic::one_way,
                                        Traffic::answer,    Traffic::ring, Traffic::idle};

struct Cut {
  int ranks = 6, low = 0, high = 3;  // the two ranks
  Traffic traffic = Traffic::everybody;
  bool fresh = false;  // the two ranks have no data connection with each other at the time of the cut
  milliseconds delay{0}, silence_limit = kShortLimit;

  // True if every rank must receive an error: the two ranks send each other heartbeats, or one of them waits for the
  // other.
  bool is_found() const;
  // The time after which the error must come. Heartbeats stop at once; a waiting rank pings after half of the limit.
  milliseconds promised() const;
};
Cut any_cut(std::uint64_t seed);
std::string describe(const Cut& cut);
Result carry_out(const Cut& cut);

}  // namespace anello::faults
