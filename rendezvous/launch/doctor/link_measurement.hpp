// Measures the latency and rate of links: between each pair of hosts, and between one pair of ranks within each host. A
// host takes part in only one pair at a time, so pairs disturb each other only in the network between the hosts. All
// functions that take a World are collective and block.
#pragma once
#include <anello/world.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace anello::launch {

struct LinkMeasurement {
  int from = 0, to = 0;            // ranks: the first ranks of two hosts, or the first two ranks of one host
  double latency_us = 0;           // one way: half the median time of a round trip of 8 bytes
  double rate = 0, back_rate = 0;  // bytes/s of large messages, from -> to and to -> from
  // The wall clock of `to` minus the wall clock of `from`; the error is about as large as the latency.
  double clock_offset_us = 0;
};

std::string encode(const std::vector<LinkMeasurement>& links);
std::vector<LinkMeasurement> decode_links(std::string_view text);  // throws Error{protocol}

// Where a rank runs: its World::node_rank() and World::local_rank().
struct Place {
  int node = 0, local_rank = 0;
};
// Returns the places of all ranks, by rank, on every rank.
std::vector<Place> gather_places(World& world);

// Measures all pairs; takes about 0.3 s for each other host. On rank 0, returns the links of all pairs; on other ranks,
// the links that the rank itself measured. Throws the errors of send() and recv().
std::vector<LinkMeasurement> measure_links(World& world, const std::vector<Place>& places);

}  // namespace anello::launch
