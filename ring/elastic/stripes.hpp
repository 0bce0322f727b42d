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

// A source's part is a multiple of this, except for the last one: for fewer bytes, another connection costs more time
// than it saves.
inline constexpr std::uint64_t kStripeBlock = 256 << 10;

// Each receiver gets each byte once. If a host has sources and receivers, its receivers get the state only from those
// sources, because memory is faster than a network. All other receivers get it from all sources: an equal part from
// each host, because its sources use the same links, and then an equal part from each source of the host. `nodes`: by
// rank, the number of its host. No stripe is empty.
std::vector<Stripe> stripes_of(const Decision& decision, const std::vector<int>& nodes, std::uint64_t bytes);

}  // namespace anello::elastic
