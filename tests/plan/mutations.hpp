// Ways to break a right plan in one place, to see whether check() notices. Each mutation is wrong by construction:
// where a change would leave the plan right (a dependency made stricter, equal neighbours swapped, a dependency that
// others imply), it is not made.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "ring/plan/plan.hpp"

namespace anello::plan {

struct Mutation {
  const char* name;
  std::size_t (*sites)(const Plan&);       // in how many places it could be tried
  bool (*apply)(Plan&, std::size_t site);  // false: there it would change nothing that matters
};
const std::vector<Mutation>& mutations();

}  // namespace anello::plan
