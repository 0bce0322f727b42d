#include "ring/algorithms/fingerprint.hpp"

#include <algorithm>

#include "ring/algorithms/selection.hpp"

namespace anello::algorithms {
namespace {

std::uint64_t add(std::uint64_t before, Operand operand) {
  return fingerprint(fingerprint(before, std::uint64_t(operand.space)), operand.at);
}

// Extends the fingerprint `before` by the plans of all ranks.
std::uint64_t add(std::uint64_t before, const Signature& signature, Shape shape) {
  for (shape.rank = 0; shape.rank < shape.world; shape.rank++)
    before = fingerprint_of(plan_of(signature, shape), before);
  return before;
}

// The samples include numbers of ranks that are powers of two and numbers that are not, buffers with fewer elements
// than ranks, and several slabs.
std::uint64_t of_allreduces(std::uint64_t before) {
  for (const Algorithm algorithm : all_algorithms())
    for (const int world : {2, 3, 4, 12})
      for (const std::uint64_t count : {2, 7})
        before = add(before, {.slab_elems = count == 7 ? 4U : 0U, .kind = Kind::allreduce, .algorithm = algorithm},
                     {.world = world, .count = count});
  const Hosts hosts(std::vector{0, 1, 0, 0});
  for (const Algorithm algorithm : all_algorithms())
    for (const Levels levels : all_levels())
      before = add(before, {.kind = Kind::allreduce, .algorithm = in_levels(levels, algorithm)},
                   {.world = 4, .count = 7, .hosts = &hosts});
  return add(before, {.kind = Kind::allreduce, .algorithm = Algorithm::ring},
             {.world = 4, .count = 7, .hosts = &hosts});
}

std::uint64_t of_other_kinds(std::uint64_t before) {
  const Hosts hosts(std::vector{0, 1, 0});
  for (const Kind kind : kAllKinds) {
    if (kind == Kind::allreduce) continue;
    const int world = kind == Kind::transfer ? 2 : 3;
    for (const std::uint32_t slab : {0, 6})
      for (const Algorithm algorithm : all_algorithms())
        before = add(before, {.slab_elems = slab, .kind = kind, .algorithm = algorithm},
                     {.world = world, .count = 7, .root = 1});
    // Five ranks are on one host, so that the fingerprint includes the grid within a host.
    const Hosts large(std::vector{0, 0, 0, 0, 0, 1, 1});
    for (const Algorithm between : {Algorithm::ring, Algorithm::two_shot})
      if (facts_of(kind).parts)
        before = add(before, {.kind = kind, .algorithm = in_levels(Levels::shares, between)},
                     {.world = 7, .count = 3, .hosts = &large});
    for (const Algorithm between : {Algorithm::ring, Algorithm::halving, Algorithm::two_shot})
      for (const Algorithm algorithm : {between, in_levels(Levels::shares, between)})
        if (world > 2)
          before = add(before, {.kind = kind, .algorithm = algorithm},
                       {.world = world, .count = 7, .root = 1, .hosts = &hosts});
  }
  return before;
}

}  // namespace

std::uint64_t fingerprint_of(const Plan& plan, std::uint64_t before) {
  for (const std::uint64_t elems :
       {plan.input_elems, plan.output_elems, plan.input_base, plan.output_base, plan.reply_elems})
    before = fingerprint(before, elems);
  for (const Step& step : plan.steps) {
    const Stream& stream = plan.streams[step.stream];
    for (const std::uint64_t value : {std::uint64_t(stream.kind), std::uint64_t(stream.peer), std::uint64_t(step.act),
                                      step.range.begin, step.range.count, std::uint64_t(step.incoming_left),
                                      std::uint64_t(step.makes_result), std::uint64_t(step.reply)})
      before = fingerprint(before, value);
    before = add(before, step.place);
    for (std::uint32_t k = 0; k < step.sources; k++) before = add(before, plan.sources[step.first_source + k]);
  }
  return before;
}

std::uint64_t build_fingerprint() {
  static const std::uint64_t value = of_other_kinds(of_allreduces(fingerprint_of_choices()));
  return value;
}

}  // namespace anello::algorithms
