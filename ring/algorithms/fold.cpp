#include "ring/algorithms/fold.hpp"

#include <vector>

namespace anello {

void gather_and_fold(Draft& draft, Range mine) {
  const int n = draft.world(), rank = draft.rank();
  if (n == 2) {
    draft.reduce(1 - rank, mine, Space::input);
    return;
  }
  std::vector<Operand> sources(std::size_t(n), draft.at(Space::input, mine));
  for (int k = 1; k < n; k++) {
    const int peer = (rank - k + n) % n;
    sources[std::size_t(peer)] = draft.window(mine.count);
    draft.copy(peer, mine, sources[std::size_t(peer)]);
  }
  draft.fold(mine, sources);
}

}  // namespace anello
