// The algorithms of the table by name, as settings and calls give them.
#pragma once
#include <string>
#include <vector>

#include "ring/base/algorithm.hpp"

namespace anello {

// All of them, or those for which keep(algorithm).
template <class Keep>
std::vector<std::string> algorithms_if(Keep keep) {
  std::vector<std::string> names;
  for (const Algorithm algorithm : all_algorithms())
    if (keep(algorithm)) names.emplace_back(name(algorithm));
  return names;
}
inline std::vector<std::string> algorithms_by_name() {
  return algorithms_if([](Algorithm) { return true; });
}

// "auto" in front of them.
inline std::vector<std::string> and_auto(std::vector<std::string> names) {
  names.insert(names.begin(), std::string(name(Algorithm::automatic)));
  return names;
}

}  // namespace anello
