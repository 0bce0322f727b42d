// How long an algorithm takes in a world of a size, by simulation of its real plans. Pure.
//
// All worlds of 2 to 16,384 ranks within minutes takes short cuts, and each prediction says which it took:
// - by symmetry one host stands for all, where the plans allow it (cast.hpp). If it rotates that is exact but for
//   roundings; a mirrored one, which is within a tenth, is taken only where everybody would be too much work.
// - of a large buffer only the first part is simulated, at two sizes, and the rest goes on at the rate between them:
//   once every link and rank has something to do at all times, time is linear in bytes. The parts are whole slabs, or
//   many grains of a single one.
// - what would still be far too many messages is not simulated: the busiest host's work alone says at least how long it
//   takes. Only hopeless algorithms come to that, a star of a thousand ranks for megabytes.
// A closed formula for each algorithm would be a second copy of what the plans say, and wrong when they change.
#pragma once
#include <string>

#include "bench/simulate/model.hpp"

namespace anello::bench {

struct Limits {
  int literal_world = 128;  // to this size every rank plays, symmetry or not
  double messages = 400e3;  // that are simulated; more are extrapolated
};

struct Prediction {
  SimulationResult played;
  Symmetry players = Symmetry::everybody;
  std::uint64_t simulated_elems = 0;  // of the job's; fewer: the rest is extrapolated; 0: it takes at least so long
  bool simulated() const { return simulated_elems > 0; }
};

Prediction predict(const Job& job, const Cluster& cluster, std::uint64_t elem_bytes, const Limits& limits = {});

}  // namespace anello::bench
