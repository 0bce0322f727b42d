// Measures the inner loops (reductions and conversions) with data in the first-level cache, in the second-level cache,
// and in memory.
#include <benchmark/benchmark.h>

#include <cstring>
#include <vector>

#include "ring/base/text.hpp"
#include "ring/run/arithmetic.hpp"

namespace anello {
namespace {

constexpr std::int64_t kInFirstCache = 8 << 10, kInSecondCache = 256 << 10, kInMemory = 64 << 20;

// "Bytes per second" counts the bytes of only one buffer, as for an allreduce; the loop reads two buffers and writes
// one.
void combine(benchmark::State& state, DType dtype, Op op) {
  const run::Arithmetic kernel = run::arithmetic(dtype, op);
  const auto bytes = std::size_t(state.range(0));
  std::vector<std::byte> local(bytes), incoming(bytes);
  for (auto _ : state) {
    kernel.combine(local.data(), local.data(), incoming.data(), bytes >> kernel.shift);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(std::int64_t(state.iterations()) * state.range(0));
}

template <class Half>
void convert_to(benchmark::State& state) {
  const auto elems = std::size_t(state.range(0)) / sizeof(float);
  std::vector<float> from(elems, 1.5F);
  std::vector<Half> to(elems);
  for (auto _ : state) {
    convert(std::span<const float>(from), std::span<Half>(to));
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(std::int64_t(state.iterations()) * state.range(0));
}

const int registered = [] {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8, DType::i32, DType::i64})
    for (const Op op : {Op::sum, Op::max})
      benchmark::RegisterBenchmark(text("combine/", name(dtype), "/", name(op)).c_str(), combine, dtype, op)
          ->Arg(kInFirstCache)
          ->Arg(kInSecondCache)
          ->Arg(kInMemory);
  benchmark::RegisterBenchmark("convert/f32/f16", convert_to<f16>)->Arg(kInSecondCache)->Arg(kInMemory);
  benchmark::RegisterBenchmark("convert/f32/bf16", convert_to<bf16>)->Arg(kInSecondCache)->Arg(kInMemory);
  return 0;
}();

}  // namespace
}  // namespace anello
