// The cases of the conformance test: the product of everything that an operation's arguments, its algorithm and its way
// between ranks can be. Pure.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "tests/support/exercise.hpp"

namespace anello::conformance {

// How ranks are linked, and whose memory tensors lie in.
enum class Way { tcp, tcp_in_pieces, memory, memory_in_pieces, lent_memory };

struct Case {
  Exercise exercise;
  Way way = Way::tcp;
  bool started = false;  // asynchronous

  // A number for each dimension's value, the same for equal values.
  static constexpr std::size_t kDimensions = 12;
  std::array<std::uint64_t, kDimensions> values() const;
};

// All of them: collective x element type x reduction x in place or not x world x count x algorithm x way x root. What
// else there is (types on the wire, unequal parts, factors, asynchronous) is drawn for each, the same every time.
std::vector<Case> product(const std::vector<int>& worlds);

// So few that every two values of different dimensions that meet in the product meet in one of these.
std::vector<Case> covering(const std::vector<Case>& all);

}  // namespace anello::conformance
