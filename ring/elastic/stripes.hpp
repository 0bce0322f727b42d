// Divides the transfer of a state between the ranks that have it. All ranks divide alike. Pure; any thread.
#pragma once
#include <cstdint>
#include <vector>

#include "ring/elastic/decision.hpp"

namespace anello::elastic {

// A part of the state that one rank sends to some of the receivers. Positions count the bytes of all entries, one entry
// after another.
struct Stripe {
  int source = 0;
  std::vector<int> receivers;  // ascending
  std::uint64_t begin = 0, end = 0;
};

// The parts of all sources except the last are multiples of this: for fewer bytes, another connection costs more time
// than it saves.
inline constexpr std::uint64_t kStripeBlock = 256 << 10;

// Each receiver gets each byte once. If a host has sources and receivers, its receivers get the state only from those
// sources, because memory is faster than a network. All other receivers get the state from all sources. Each host with
// sources sends an equal part, because the sources of a host use the same links. Each source of the host sends an equal
// part of the host's part. `nodes`: by rank, the number of its host. No stripe is empty.
std::vector<Stripe> stripes_of(const Decision& decision, const std::vector<int>& nodes, std::uint64_t bytes);

}  // namespace anello::elastic
