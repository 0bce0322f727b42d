// Measures a whole allreduce in a world of threads. The number of iterations is fixed, because ranks with different
// numbers would wait for each other forever.
#include <benchmark/benchmark.h>

#include <anello/testing.hpp>
#include <vector>

namespace anello {
namespace {

void world_allreduce(benchmark::State& state) {
  const int ranks = int(state.range(0));
  const std::int64_t bytes = state.range(1);
  run_world(ranks, [&](World& world) {
    std::vector<float> buffer(std::size_t(bytes) / sizeof(float), 0.0F);
    world.allreduce(buffer);  // the first call opens the connections
    if (world.rank() == 0)
      for (auto _ : state) world.allreduce(buffer);
    else
      for (benchmark::IterationCount i = 0; i < state.max_iterations; i++) world.allreduce(buffer);
  });
  state.SetBytesProcessed(std::int64_t(state.iterations()) * bytes);
}
BENCHMARK(world_allreduce)
    ->ArgNames({"ranks", "bytes"})
    ->ArgsProduct({{2, 4}, {4, 64 << 10}})
    ->Iterations(500)
    ->UseRealTime();
BENCHMARK(world_allreduce)
    ->ArgNames({"ranks", "bytes"})
    ->ArgsProduct({{2, 4}, {4 << 20, 32 << 20}})
    ->Iterations(20)
    ->UseRealTime();

}  // namespace
}  // namespace anello
