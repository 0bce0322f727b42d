// Ways to break a right plan in one place, to test whether check() finds the error. Each mutation makes the plan wrong.
// No mutation is made where the plan would stay right (a stricter dependency, a swap of equal neighbours, a dependency
// that others imply).
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "ring/plan/plan.hpp"

namespace anello::plan {

struct Mutation {
  const char* name;
  std::size_t (*sites)(const Plan&);       // the number of places where it can be applied
  bool (*apply)(Plan&, std::size_t site);  // false: the change would have no effect there
};
const std::vector<Mutation>& mutations();

}  // namespace anello::plan
