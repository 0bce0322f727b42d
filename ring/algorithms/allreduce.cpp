// Makes the plan of an allreduce by an algorithm of the table.
#include "ring/algorithms/allreduce.hpp"

#include <utility>

#include "ring/algorithms/building_blocks.hpp"
#include "ring/algorithms/two_level.hpp"
#include "ring/base/check.hpp"

namespace anello::algorithms {

void allreduce::emit(Algorithm algorithm, PlanBuilder& builder, Range slab) {
  switch (algorithm) {
    case Algorithm::automatic:
      break;
#define ANELLO_ALGORITHM(name, ...) \
  case Algorithm::name:             \
    return name(builder, slab);
#include "ring/algorithms/algorithms.def"
  }
  ANELLO_CHECK(!"an algorithm of the table");
}

namespace {

// The ring passes through each host once, no matter how the ranks are numbered.
void emit_on(const Hosts& hosts, Algorithm algorithm, PlanBuilder& builder, Range slab) {
  if (algorithm == Algorithm::ring)
    builder.among(hosts.all_ranks(), Space::input, [&] { allreduce::ring(builder, slab); });
  else
    allreduce::emit(algorithm, builder, slab);
}

}  // namespace

Plan plan_allreduce(Algorithm algorithm, const Shape& shape, std::uint64_t slab_elems) {
  PlanBuilder builder(
      {.rank = shape.rank, .world = shape.world, .input_elems = shape.count, .output_elems = shape.count});
  if (shape.world > 1 && shape.hosts && levels_of(algorithm) != Levels::one)
    allreduce::in_two_levels(algorithm, builder, shape.count, slab_elems, *shape.hosts);
  else
    each_slab(builder, shape.count, shape.world == 1 ? 0 : slab_elems, [&](Range slab) {
      if (shape.world == 1)
        reduce_alone(builder, slab);
      else if (shape.hosts)
        emit_on(*shape.hosts, algorithm, builder, slab);
      else
        allreduce::emit(between_hosts(algorithm), builder, slab);
    });
  return std::move(builder).finish();
}

Plan plan_barrier(const Shape& shape, Algorithm algorithm) {
  if (algorithm == Algorithm::automatic) algorithm = Algorithm::tree;
  return plan_allreduce(algorithm, {.rank = shape.rank, .world = shape.world, .count = 1, .hosts = shape.hosts}, 0);
}

}  // namespace anello::algorithms
