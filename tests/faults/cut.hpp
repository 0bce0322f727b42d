// A network that drops what two ranks send each other while all other pairs go on: in a world of threads, whose every
// two ranks have a proxy between them, for control connections, data and pings.
#pragma once
#include "tests/faults/trial.hpp"

namespace anello::faults {

// What the ranks do when the cut comes.
enum class Traffic {
  everybody,  // an alltoall: any two ranks wait for each other
  pair,       // the two ranks reduce in a group of their own
  one_way,    // the higher of the two sends to the lower one, which alone waits
  answer,     // the lower of the two sends to the higher one, which alone waits
  ring,       // an allreduce in which rank r waits for rank r - 1 alone
  idle,       // nothing
};
inline constexpr Traffic kTraffics[] = {Traffic::everybody, Traffic::pair, Traffic::one_way,
                                        Traffic::answer,    Traffic::ring, Traffic::idle};

struct Cut {
  int ranks = 6, low = 0, high = 3;  // the two ranks
  Traffic traffic = Traffic::everybody;
  bool fresh = false;  // the two have no data connection with each other when the cut comes
  milliseconds delay{0}, silence_limit = kShortLimit;

  // They send each other heartbeats, or one of them waits for the other: then every rank must receive an error.
  bool is_found() const;
  // Heartbeats stop at once; a rank that waits pings after half of the limit.
  milliseconds promised() const;
};
Cut any_cut(std::uint64_t seed);
std::string describe(const Cut& cut);
Result carry_out(const Cut& cut);

}  // namespace anello::faults
