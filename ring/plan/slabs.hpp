// How algorithms divide a buffer: into the ranks' chunks, and into slabs that follow each other.
#pragma once
#include <algorithm>

#include "ring/plan/plan_builder.hpp"

namespace anello::plan {

// Returns part `index` of the range's `parts` parts. The parts' sizes differ by at most one element.
inline Range chunk(Range whole, int index, int parts) {
  const std::uint64_t shorter = whole.count / parts, longer = whole.count % parts, i = index;
  return {whole.begin + i * shorter + std::min(i, longer), shorter + (i < longer)};
}

inline std::uint64_t slabs_of(std::uint64_t count, std::uint64_t slab_elems) {
  return count == 0 || slab_elems == 0 ? std::uint64_t(count > 0) : (count - 1) / slab_elems + 1;
}

// Calls first(slab), second(slab) and third(slab) for each slab of [0, count). slab_elems 0: there is one slab. A
// slab's second() is called after first() of the next slab. Its third() is called after second() of the next `behind`
// slabs. Two ranks send their messages to each other in the order of these calls. So while a slab waits for other ranks
// between its calls, the next slabs can already make progress.
template <class First, class Second, class Third>
void each_slab(PlanBuilder& builder, std::uint64_t count, std::uint64_t slab_elems, First first, Second second,
               Third third, std::uint64_t behind = 1) {
  if (slab_elems == 0) slab_elems = count;
  const std::uint64_t slabs = slabs_of(count, slab_elems);
  const auto emit = [&](std::uint64_t index, auto& part) {
    if (index >= slabs) return;  // true also if a subtraction in the loop below has wrapped round to a huge number
    builder.slab(index);
    part(Range{index * slab_elems, std::min(slab_elems, count - index * slab_elems)});
  };
  for (std::uint64_t index = 0; index <= slabs + behind; index++) {
    emit(index, first);
    emit(index - 1, second);
    emit(index - 1 - behind, third);
  }
}

// Calls emit(slab) for each slab of [0, count). slab_elems 0: there is one slab.
template <class Emit>
void each_slab(PlanBuilder& builder, std::uint64_t count, std::uint64_t slab_elems, Emit emit) {
  const auto nothing = [](Range) {};
  each_slab(builder, count, slab_elems, emit, nothing, nothing);
}

}  // namespace anello::plan
