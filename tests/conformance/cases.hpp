// The cases of the conformance test: all combinations of an operation's arguments, its algorithm and the way between
// ranks. Pure.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "tests/support/exercise.hpp"

namespace anello::conformance {

// The links between the ranks, and whose memory the tensors lie in.
enum class Way { tcp, tcp_in_pieces, memory, memory_in_pieces, lent_memory };

struct Case {
  Exercise exercise;
  Way way = Way::tcp;
  bool started = false;  // asynchronous

  // For each dimension, a number that stands for this case's value; equal values have equal numbers.
  static constexpr std::size_t kDimensions = 12;
  std::array<std::uint64_t, kDimensions> values() const;
};

// All combinations: collective x element type x reduction x in place or not x world x count x algorithm x way x root.
// Other properties (wire types, unequal parts, factors, asynchronous) are drawn at random for each case, with a fixed
// seed.
std::vector<Case> product(const std::vector<int>& worlds);

// Returns a small subset of `all`: each combination of `together` values (1 to 3) of different dimensions that occurs
// in `all` also occurs in the subset.
std::vector<Case> covering(const std::vector<Case>& all, std::size_t together);

}  // namespace anello::conformance
