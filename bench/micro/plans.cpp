// Measures planning: the time of the first call for a kind, size and type on one rank, by algorithm and size of the
// world.
#include <benchmark/benchmark.h>

#include "ring/algorithms/plans.hpp"
#include "ring/algorithms/selection.hpp"
#include "ring/base/text.hpp"

namespace anello {
namespace {

constexpr std::uint64_t kElems = 16 << 20, kElemBytes = 4, kSlabBytes = 4 << 20;

void plan(benchmark::State& state, Algorithm algorithm) {
  const int world = int(state.range(0));
  const algorithms::Shape shape{world / 2, world, kElems, 0};
  algorithms::Facts facts;
  facts.world = world;
  facts.bytes = kElems * kElemBytes;
  facts.elem_bytes = kElemBytes;
  facts.slab_bytes = kSlabBytes;
  const std::uint64_t slab = slab_elems(facts);
  std::size_t steps = 0;
  for (auto _ : state) steps = plan_allreduce(algorithm, shape, slab).steps.size();
  state.counters["steps"] = double(steps);
}

void choice(benchmark::State& state) {
  algorithms::Facts facts;
  facts.world = 8;
  facts.elem_bytes = kElemBytes;
  facts.slab_bytes = kSlabBytes;
  for (auto _ : state) {
    facts.bytes = (facts.bytes + 4097) & 0xFFFFFF;
    benchmark::DoNotOptimize(choose(facts));
  }
}
BENCHMARK(choice);

const int plans_registered = [] {
  for (const Algorithm algorithm : all_algorithms())
    benchmark::RegisterBenchmark(text("plan/", name(algorithm)).c_str(), plan, algorithm)
        ->Arg(2)
        ->Arg(8)
        ->Arg(64)
        ->Arg(16384)
        ->Unit(benchmark::kMicrosecond);
  return 0;
}();

}  // namespace
}  // namespace anello
