// Predicts all worlds of 2 to 16,384 ranks within minutes, with approximations. Each prediction reports its
// approximations:
// - If the plans allow it, one host is simulated for all, by symmetry (simulated_ranks.hpp). This is exact except for
//   rounding.
// - If a buffer is large, only its first part is simulated, at two sizes, and the time is extended at the rate between
//   the two sizes: once every link and rank is busy all the time, time is linear in bytes. The simulated parts are
//   whole slabs, or many grains of one slab.
// - A case with far too many messages is not simulated: the result is a lower bound from the work of the busiest host.
//   This happens only to unsuitable algorithms, such as a star of a thousand ranks for megabytes.
// A closed formula for each algorithm would duplicate the plans, and would become wrong when the plans change.
#pragma once
#include <string>

#include "bench/simulate/model.hpp"

namespace anello::bench {

struct Limits {
  int literal_world = 128;  // up to this size every rank is simulated, even with symmetry
  // Maximum number of messages to simulate; the time of an operation with more is extrapolated.
  double messages = 400e3;
};

struct Prediction {
  SimulationResult result;
  Symmetry symmetry = Symmetry::every_rank;
  // If fewer than the job's elements, the rest is extrapolated. If 0, the result is a lower bound.
  std::uint64_t simulated_elems = 0;
  bool simulated() const { return simulated_elems > 0; }
};

Prediction predict(const Job& job, const Cluster& cluster, std::uint64_t elem_bytes, const Limits& limits = {});

}  // namespace anello::bench
