// All algorithms of a collective for one number of ranks and one size: the time that each would take, and the choice of
// choose(). Pure.
#pragma once
#include <functional>
#include <string_view>
#include <vector>

#include "bench/simulate/predict.hpp"
#include "ring/algorithms/selection.hpp"

namespace anello::bench {

inline constexpr std::size_t kElemBytes = 4;  // f32

// One number of ranks and one size.
struct Cell {
  struct Row {
    Algorithm algorithm;
    std::uint64_t slab_elems;
    Prediction prediction;
  };
  int world = 0, hosts = 0;
  std::uint64_t count = 0;
  double bound_us = 0, aim_us = 0;  // lower_bound_us(), network_aim_us()
  algorithms::Choice choice;
  std::vector<Row> rows;  // of every algorithm

  std::uint64_t bytes() const { return count * kElemBytes; }
  const Row& chosen() const;
  const Row& fastest() const;  // of those that were simulated
  // The loss of choose(): the time of its algorithm divided by that of the fastest.
  double loss() const { return chosen().prediction.result.us / fastest().prediction.result.us; }
};

// The facts for choose() about this cluster, except the bytes.
algorithms::Facts facts_of(const Cluster& cluster, int world, std::int64_t slab_bytes);

// What is simulated of a size that a user gives, as a measurement does it: whole elements, at least one, and where
// ranks have equal parts, a few more, so that each part has the same number.
std::uint64_t bytes_simulated(Kind kind, int world, std::uint64_t size_bytes);

// `facts` includes the bytes, which bytes_simulated() has given. Throws Error{configuration} if the ranks do not fill
// their hosts.
Cell simulate_cell(const Cluster& cluster, Kind kind, const algorithms::Facts& facts, const Limits& limits);
Job job_of(const Cluster& cluster, Kind kind, const algorithms::Facts& facts, Algorithm algorithm);

}  // namespace anello::bench
