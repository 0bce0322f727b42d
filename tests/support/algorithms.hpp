// The names of the algorithms in the table, for settings and calls.
#pragma once
#include <string>
#include <vector>

#include "ring/base/algorithm.hpp"

namespace anello {

// Returns all names, or those of the algorithms for which keep(algorithm) is true.
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

// Puts "auto" in front of the names.
inline std::vector<std::string> and_auto(std::vector<std::string> names) {
  names.insert(names.begin(), std::string(name(Algorithm::automatic)));
  return names;
}

}  // namespace anello
