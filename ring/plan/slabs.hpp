// How algorithms cut a buffer: into the ranks' chunks, and into slabs that follow each other.
#pragma once
#include <algorithm>

#include "ring/plan/plan_builder.hpp"

namespace anello::plan {

// Part `index` of `parts`; sizes differ by one at most.
inline Range chunk(Range whole, int index, int parts) {
  const std::uint64_t shorter = whole.count / parts, longer = whole.count % parts, i = index;
  return {whole.begin + i * shorter + std::min(i, longer), shorter + (i < longer)};
}

// Calls emit(slab) for each slab of [0, count); slab_elems 0 makes one of all.
template <class Emit>
void each_slab(PlanBuilder& builder, std::uint64_t count, std::uint64_t slab_elems, Emit emit) {
  if (slab_elems == 0) slab_elems = count;
  for (std::uint64_t at = 0; at < count; at += slab_elems) {
    if (at != 0) builder.next_slab();
    emit(Range{at, std::min(slab_elems, count - at)});
  }
}

}  // namespace anello::plan
