// The kinds of collectives for tests, from the table, so that tests also cover a new kind.
#pragma once
#include <vector>

#include "ring/base/collective.hpp"

namespace anello {

// All kinds, except transfers, which are no collective.
inline std::vector<Kind> collectives() {
  std::vector<Kind> kinds;
  for (const Kind kind : kAllKinds)
    if (kind != Kind::transfer) kinds.push_back(kind);
  return kinds;
}

// Those with tensors.
inline std::vector<Kind> collectives_with_tensors() {
  std::vector<Kind> kinds = collectives();
  std::erase(kinds, Kind::barrier);
  return kinds;
}

}  // namespace anello
