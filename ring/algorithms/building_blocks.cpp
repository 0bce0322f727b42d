#include "ring/algorithms/building_blocks.hpp"

#include <array>
#include <vector>

namespace anello::algorithms {

void gather_and_fold(PlanBuilder& builder, Range mine) {
  const int n = builder.world(), rank = builder.rank();
  if (n == 2) {
    builder.reduce(1 - rank, mine, Space::input);
    return;
  }
  std::vector<Operand> sources(std::size_t(n), builder.at(Space::input, mine));
  for (int k = 1; k < n; k++) {
    const int peer = (rank - k + n) % n;
    sources[std::size_t(peer)] = builder.scratch(mine.count);
    builder.copy(peer, mine, sources[std::size_t(peer)]);
  }
  builder.fold(mine, sources);
}

void copy_input(PlanBuilder& builder, Range range) {
  builder.fold(range, std::array{builder.at(Space::input, range)});
}

Parts parts_of(const Shape& shape) {
  return {shape.world, shape.count, shape.counts};
}

}  // namespace anello::algorithms
