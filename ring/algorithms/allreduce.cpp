// From an algorithm of the table to the plan of an allreduce.
#include "ring/algorithms/allreduce.hpp"

#include <utility>

#include "ring/algorithms/building_blocks.hpp"
#include "ring/base/check.hpp"

namespace anello::algorithms {
namespace {

void emit(Algorithm algorithm, PlanBuilder& builder, Range slab) {
  switch (algorithm) {
    case Algorithm::automatic:
      break;
#define ANELLO_ALGORITHM(name, ...) \
  case Algorithm::name:             \
    return allreduce::name(builder, slab);
#include "ring/algorithms/algorithms.def"
  }
  ANELLO_CHECK(!"an algorithm of the table");
}

}  // namespace

Plan plan_allreduce(Algorithm algorithm, const Shape& shape, std::uint64_t slab_elems) {
  PlanBuilder builder(
      {.rank = shape.rank, .world = shape.world, .input_elems = shape.count, .output_elems = shape.count});
  each_slab(builder, shape.count, shape.world == 1 ? 0 : slab_elems, [&](Range slab) {
    if (shape.world == 1)
      copy_input(builder, slab);
    else
      emit(algorithm, builder, slab);
  });
  return std::move(builder).finish();
}

Plan plan_barrier(const Shape& shape) {
  return plan_allreduce(Algorithm::tree, {.rank = shape.rank, .world = shape.world, .count = 1});
}

}  // namespace anello::algorithms
