// The cases of the conformance test: all combinations of an operation's arguments, its algorithm and the way between
// ranks. Pure.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "tests/support/exercise.hpp"

namespace anello::conformance {

// How the ranks are linked, and in whose memory tensors lie.
enum class Way { tcp, tcp_in_pieces, memory, memory_in_pieces, lent_memory };

struct Case {
  Exercise exercise;
  Way way = Way::tcp;
  bool started = false;  // asynchronous

  // A number for each dimension's value; equal for equal values.
  static constexpr std::size_t kDimensions = 12;
  std::array<std::uint64_t, kDimensions> values() const;
};

// All combinations: collective x element type x reduction x in place or not x world x count x algorithm x way x root.
// Other properties (wire types, unequal parts, factors, asynchronous) are drawn for each case, in the same way every
// time.
std::vector<Case> product(const std::vector<int>& worlds);

// Returns a small subset of `all`: each combination of `together` values (1 to 3) of different dimensions that occurs
// in `all` also occurs in the subset.
std::vector<Case> covering(const std::vector<Case>& all, std::size_t together);

}  // namespace anello::conformance
