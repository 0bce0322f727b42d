// How long an algorithm takes in a world of a size, by simulation of its real plans. Pure.
//
// All worlds of 2 to 16,384 ranks within seconds takes two short cuts, and each prediction says which it took:
// - by symmetry one host stands for all, where the plans allow it (cast.hpp). It is exact but for roundings.
// - of a large buffer only the first part is simulated, at two sizes, and the rest goes on at the rate between them:
//   once every link and rank has something to do at all times, time is linear in bytes. The parts are whole slabs, or
//   many segments of a single one.
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
  Played played;
  bool one_host = false;              // stands for all
  std::uint64_t simulated_elems = 0;  // of the job's; fewer: the rest is extrapolated
};

Prediction predict(const Job& job, const Cluster& cluster, std::uint64_t elem_bytes, const Limits& limits = {});

}  // namespace anello::bench
