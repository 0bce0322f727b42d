// The meaning of a dependency. Shared by all code that carries out plans: ring/run/execution.cpp with bytes,
// interpreter.cpp with symbols, bench/simulate/model.cpp with times. Inline, because it runs for every piece of data.
// Pure.
#pragma once
#include <algorithm>
#include <cstdint>

#include "ring/plan/plan.hpp"

namespace anello::plan {

// The progress of a stream: all steps before `step` have ended, and `elems` elements of `step` are done.
struct Position {
  std::uint32_t step = 0;
  std::uint64_t elems = 0;
};

// Returns the first element that `step` must not process yet because of `dep`. A step may process element e when every
// step on which it depends has processed e. If the step of `dep` has ended, returns the end of `step`'s range. The
// result may be before the beginning of `step`'s range. position_of(stream) must return the position of a stream of the
// same rank.
template <class PositionOf>
std::uint64_t limit(const Plan& plan, const Step& step, Dep dep, PositionOf position_of) {
  const Step& other = plan.steps[dep.step];
  const Position reached = position_of(other.stream);
  if (reached.step > dep.step) return step.range.end();
  if (dep.whole) return step.range.begin;
  return other.range.begin + (reached.step == dep.step ? reached.elems : 0);
}

// Returns the lowest limit of all dependencies of `step`.
template <class PositionOf>
std::uint64_t limit(const Plan& plan, const Step& step, PositionOf position_of) {
  std::uint64_t end = step.range.end();
  const Dep* dep = plan.deps.data() + step.first_dep;
  // This case is usual, and needs no loop.
  if (step.deps == 1) return std::min(end, limit(plan, step, *dep, position_of));
  for (std::uint32_t k = 0; k < step.deps; k++) end = std::min(end, limit(plan, step, dep[k], position_of));
  return end;
}

}  // namespace anello::plan
