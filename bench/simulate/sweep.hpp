// Simulates all algorithms of a collective for one number of ranks and one size. Gives the time of each algorithm, and
// which one choose() (ring/algorithms/selection.hpp) chooses. Pure.
#pragma once
#include <functional>
#include <string_view>
#include <vector>

#include "bench/simulate/predict.hpp"
#include "ring/algorithms/selection.hpp"

namespace anello::bench {

inline constexpr std::size_t kElemBytes = 4;  // the size of an f32

// The results for one number of ranks and one size.
struct Cell {
  struct Row {
    Algorithm algorithm;
    std::uint64_t slab_elems;
    Prediction prediction;
  };
  int world = 0, hosts = 0;
  std::uint64_t count = 0;
  double bound_us = 0, aim_us = 0;  // results of lower_bound_us() and network_aim_us()
  algorithms::Choice choice;
  std::vector<Row> rows;  // one for every algorithm

  std::uint64_t bytes() const { return count * kElemBytes; }
  const Row& chosen() const;
  const Row& fastest() const;  // among the simulated algorithms
  // The loss of choose(): the time of the chosen algorithm divided by the time of the fastest algorithm.
  double loss() const { return chosen().prediction.result.us / fastest().prediction.result.us; }
};

// Returns the facts about this cluster that choose() needs, except for the bytes.
algorithms::Facts facts_of(const Cluster& cluster, int world, std::int64_t slab_bytes);

// Returns the bytes to simulate for a size that a user gave. Rounds as a measurement does: to whole elements, at least
// one; and, if the ranks have equal parts, up to the next count that makes all parts equal.
std::uint64_t bytes_simulated(Kind kind, int world, std::uint64_t size_bytes);

// `facts` includes the bytes, from bytes_simulated(). Throws Error{configuration} if the number of ranks is not a
// multiple of --ranks-per-host.
Cell simulate_cell(const Cluster& cluster, Kind kind, const algorithms::Facts& facts, const Limits& limits);
Job job_of(const Cluster& cluster, Kind kind, const algorithms::Facts& facts, Algorithm algorithm);

}  // namespace anello::bench
