// Which algorithm an allreduce takes: a fixed table over facts that are equal on all ranks, never a measurement taken at
// start, so that bits do not change from run to run. Pure.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "ring/plan/algorithm.hpp"

namespace anello {

struct Facts {
  int world = 1;
  bool oversubscribed = false;  // a host has more ranks than cores
  std::uint64_t bytes = 0;      // of one rank's buffer
  std::size_t elem_bytes = 1;
  Algorithm forced = Algorithm::automatic;
  std::uint64_t slab_bytes = 0;  // 0: large buffers are not cut
};

struct Choice {
  Algorithm algorithm = Algorithm::ring;
  std::uint64_t slab_elems = 0;  // 0: all at once
  std::string_view reason;       // for logs
};

Choice choose(const Facts& facts);

std::string algorithm_names();  // "auto, ring, star, ...", for error messages

}  // namespace anello
