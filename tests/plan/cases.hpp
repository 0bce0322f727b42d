// All plans as cases: the plans of all ranks, and their guarantees. For tests of plans and of their execution.
#pragma once
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "ring/algorithms/plans.hpp"
#include "ring/algorithms/selection.hpp"
#include "ring/base/text.hpp"
#include "ring/plan/check.hpp"
#include "ring/plan/plan_builder.hpp"
#include "tests/support/layouts.hpp"
#include "tests/support/uneven.hpp"

namespace anello::plan {

struct Case {
  std::string name;
  std::vector<Plan> plans;  // rank by rank
  Expectation expectation;
};

template <class Build>
std::vector<Plan> plans_of(int world, Build build) {
  std::vector<Plan> plans;
  for (int rank = 0; rank < world; rank++) plans.push_back(build(rank));
  return plans;
}

// Returns all algorithms of a collective: those that keep rank order, and the others. If hosts have several ranks,
// there are more algorithms.
inline std::vector<Algorithm> algorithms_of(Kind kind, int world = 4, int hosts = 1) {
  const algorithms::Facts facts{.world = world, .hosts = hosts}, in_order{.world = world, .rank_order = true};
  std::vector<Algorithm> all = algorithms::algorithms_for(kind, facts);
  for (const Algorithm each : algorithms::algorithms_for(kind, in_order))
    if (!std::ranges::count(all, each)) all.push_back(each);
  return all;
}
inline bool in_rank_order(Kind kind, Algorithm algorithm) {
  if (kind == Kind::reduce) return algorithm == Algorithm::star || algorithm == Algorithm::chain;
  return kind == Kind::reduce_scatter && algorithm == Algorithm::two_shot;
}

// Adds cases with unequal parts.
inline void add_uneven(std::vector<Case>& cases, int world, std::uint64_t count) {
  const std::vector<std::uint64_t> counts = uneven_counts(world, count);
  const auto add = [&](std::string_view what, Expectation expectation, auto build) {
    std::string title = text(what, " of unequal parts, world ", world, ", count ", count);
    cases.push_back({std::move(title), plans_of(world, build), std::move(expectation)});
  };
  for (const Algorithm algorithm : algorithms_of(Kind::allgather))
    add(text("allgather by ", name(algorithm)), {Kind::allgather, false, 0, counts}, [&](int rank) {
      return algorithms::plan_allgather({rank, world, 0, 0, counts}, algorithm);
    });
  for (int root = 0; root < world; root++) {
    add(text("gather to ", root), {Kind::gather, false, root, counts}, [&](int rank) {
      return algorithms::plan_gather({rank, world, 0, root, counts});
    });
    add(text("scatter from ", root), {Kind::scatter, false, root, counts}, [&](int rank) {
      return algorithms::plan_scatter({rank, world, 0, root, counts});
    });
  }
  std::vector<std::uint64_t> matrix;
  for (int from = 0; from < world; from++)
    for (const std::uint64_t each : uneven_counts(world, count, from)) matrix.push_back(each);
  add("alltoall", {Kind::alltoall, false, 0, matrix}, [&](int rank) {
    return algorithms::plan_alltoall(
        {rank, world, 0, 0, uneven_counts(world, count, rank), uneven_received(world, count, rank)});
  });
}

// Returns all collectives and algorithms for this world and count, with every root, and with slabs if they have any.
inline std::vector<Case> all_cases(int world, std::uint64_t count, std::uint64_t slab_elems) {
  std::vector<Case> cases;
  const auto add = [&](std::string_view what, Expectation expectation, auto build) {
    std::string title = text(what, ", world ", world, ", count ", count, ", slab ", slab_elems);
    cases.push_back({std::move(title), plans_of(world, build), expectation});
  };
  for (const Algorithm algorithm : all_algorithms())
    add(name(algorithm), {Kind::allreduce, reproducible(algorithm)}, [&](int rank) {
      return algorithms::plan_allreduce(algorithm, {rank, world, count}, slab_elems);
    });
  const std::vector<std::uint64_t> uneven = uneven_counts(world, count);
  for (const Algorithm algorithm : algorithms_of(Kind::reduce_scatter)) {
    const bool rank_order = in_rank_order(Kind::reduce_scatter, algorithm);
    add(text("reduce_scatter by ", name(algorithm)), {Kind::reduce_scatter, rank_order}, [&](int rank) {
      return algorithms::plan_reduce_scatter({rank, world, count}, slab_elems, algorithm);
    });
    add(text("reduce_scatter of unequal parts by ", name(algorithm)), {Kind::reduce_scatter, rank_order, 0, uneven},
        [&](int rank) {
          return algorithms::plan_reduce_scatter({rank, world, count, 0, uneven}, slab_elems, algorithm);
        });
  }
  for (int root = 0; root < world; root++)
    for (const Algorithm algorithm : algorithms_of(Kind::reduce))
      add(text("reduce to ", root, " by ", name(algorithm)),
          {Kind::reduce, in_rank_order(Kind::reduce, algorithm), root}, [&](int rank) {
            return algorithms::plan_reduce({rank, world, count, root}, slab_elems, algorithm);
          });
  if (slab_elems != 0) return cases;
  add("alltoall", {Kind::alltoall}, [&](int rank) { return algorithms::plan_alltoall({rank, world, count}); });
  add_uneven(cases, world, count);
  for (int root = 0; root < world && world == 2; root++)
    add(text("transfer from ", root), {Kind::transfer, false, root}, [&](int rank) {
      return algorithms::plan_transfer({rank, world, count, root});
    });
  for (const Algorithm algorithm : algorithms_of(Kind::allgather))
    add(text("allgather by ", name(algorithm)), {Kind::allgather}, [&](int rank) {
      return algorithms::plan_allgather({rank, world, count}, algorithm);
    });
  for (int root = 0; root < world; root++) {
    add(text("gather to ", root), {Kind::gather, false, root}, [&](int rank) {
      return algorithms::plan_gather({rank, world, count, root});
    });
    add(text("scatter from ", root), {Kind::scatter, false, root}, [&](int rank) {
      return algorithms::plan_scatter({rank, world, count, root});
    });
  }
  for (int root = 0; root < world; root++)
    for (const Algorithm algorithm : algorithms_of(Kind::broadcast))
      add(text("broadcast from ", root, " by ", name(algorithm)), {Kind::broadcast, false, root}, [&](int rank) {
        return algorithms::plan_broadcast({rank, world, count, root}, algorithm);
      });
  return cases;
}

// Returns the collectives other than allreduce on hosts with several ranks, also with unequal parts.
inline std::vector<Case> cases_on_hosts(const Layout& layout, std::uint64_t count) {
  std::vector<Case> cases;
  const algorithms::Hosts hosts(layout.hosts);
  const int world = layout.world();
  const auto add = [&](const Signature& signature, int root, const std::vector<std::uint64_t>& counts) {
    const auto build = [&](int rank) {
      return algorithms::plan_of(signature, {.rank = rank,
                                             .world = world,
                                             .count = counts.empty() ? count : 0,
                                             .root = root,
                                             .counts = counts,
                                             .hosts = &hosts});
    };
    std::string title = text(name(signature.kind), " by ", name(signature.algorithm), " of root ", root, " on ",
                             layout.name, counts.empty() ? "" : " of unequal parts", ", slab ", signature.slab_elems);
    const bool rank_order = in_rank_order(signature.kind, signature.algorithm);
    cases.push_back({std::move(title), plans_of(world, build), {signature.kind, rank_order, root, counts}});
  };
  for (const Kind kind : {Kind::broadcast, Kind::reduce})
    for (const Algorithm algorithm : algorithms_of(kind, world, hosts.count()))
      for (int root = 0; root < world; root++)
        for (const std::uint32_t slab : {0, 3})
          if (slab == 0 || kind == Kind::reduce)
            add({.slab_elems = slab, .kind = kind, .algorithm = algorithm}, root, {});
  for (const Kind kind : {Kind::allgather, Kind::reduce_scatter})
    for (const Algorithm algorithm : algorithms_of(kind, world, hosts.count()))
      for (const auto& counts : {std::vector<std::uint64_t>{}, uneven_counts(world, count)})
        for (const std::uint32_t slab : {0, 8})
          if (slab == 0 || kind == Kind::reduce_scatter)
            add({.slab_elems = slab, .kind = kind, .algorithm = algorithm}, 0, counts);
  add({.kind = Kind::alltoall}, 0, {});
  return cases;
}

// A plan for tests only: a reduce_scatter of five ranks. Its partial sums take turns in this number of scratch slots,
// so that later chunks overwrite earlier chunks. With two slots the plan is right; with one slot, all ranks wait for
// each other.
inline Case with_scratch_slots(int slots) {
  constexpr int kWorld = 5;
  constexpr std::uint64_t kCount = 3;
  const auto build = [&](int rank) {
    PlanBuilder builder({.rank = rank,
                         .world = kWorld,
                         .input_elems = kWorld * kCount,
                         .output_elems = kCount,
                         .output_base = std::uint64_t(rank) * kCount});
    const auto part = [&](int owner) { return Range{std::uint64_t((owner + kWorld) % kWorld) * kCount, kCount}; };
    std::vector<Operand> slot;
    for (int k = 0; k < slots; k++) slot.push_back(builder.scratch(kCount));
    Operand partial = builder.at(Space::input, part(rank - 1));
    for (int round = 1; round < kWorld; round++) {
      builder.send((rank + 1) % kWorld, part(rank - round), partial);
      const Range next = part(rank - round - 1);
      partial = round == kWorld - 1 ? builder.at(Space::output, next) : slot[std::size_t(round % slots)];
      builder.reduce((rank + kWorld - 1) % kWorld, next, partial, builder.at(Space::input, next));
    }
    return std::move(builder).finish();
  };
  return {text("reduce_scatter in ", slots, " scratch slots"), plans_of(kWorld, build), {Kind::reduce_scatter}};
}

}  // namespace anello::plan
