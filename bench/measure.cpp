#include "bench/measure.hpp"

#include <algorithm>
#include <chrono>
#include <span>
#include <vector>

#include "bench/pattern.hpp"

namespace anello::bench {
namespace {

constexpr int kMinCalls = 3, kMaxCalls = 20'000, kMaxWarmup = 200;
constexpr double kMaxOverBudget = 2;

double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double over_ranks(Library& library, double value, Op op) {
  library.gather(std::span(&value, 1), op);
  return value;
}

double duration_us(const Library::Call& call) {
  const double start = now_us();
  call();
  return now_us() - start;
}

int calls_in(double budget_us, double call_us) {
  return int(std::clamp<double>(budget_us / call_us, kMinCalls, kMaxCalls));
}

// Returns the number of calls that fit the budget. Times a short call three times, because the scheduler may delay one
// of them.
int fitting(Library& library, const Library::Call& call, double budget_us) {
  double min_us = over_ranks(library, duration_us(call), Op::max);
  for (int i = 0; i < 2 && min_us * kMinCalls < budget_us; i++)
    min_us = std::min(min_us, over_ranks(library, duration_us(call), Op::max));
  return calls_in(budget_us, min_us);
}

}  // namespace

Timing measure(Library& library, const Library::Call& call, const Options& options) {
  call();  // this first call opens connections and fills caches
  const double budget_us = options.budget_ms * 1e3;
  int iterations = options.iterations > 0 ? options.iterations : fitting(library, call, budget_us);
  const int warmup = options.warmup >= 0 ? options.warmup : std::clamp(iterations / 10, 1, kMaxWarmup);
  const double warmup_start = now_us();
  for (int i = 0; i < warmup; i++) call();
  // Lowers `iterations` if the warmup was slow, because on a busy machine most calls take far longer than the shortest
  // one.
  if (options.iterations == 0 && warmup > 0) {
    const double call_us = over_ranks(library, now_us() - warmup_start, Op::max) / warmup;
    iterations = std::min(iterations, calls_in(kMaxOverBudget * budget_us, call_us));
  }
  std::vector<double> durations(std::size_t(iterations), 0.0);

  const double start = now_us();
  double before = start;
  for (double& duration : durations) {
    call();
    const double now = now_us();
    duration = now - before;
    before = now;
  }
  const double wall = over_ranks(library, before - start, Op::max);
  library.gather(durations, Op::max);
  return summarize(durations, wall);
}

std::optional<std::uint64_t> check(Library& library, const Library::Call& call, Kind kind, const Tensors& tensors,
                                   Op op, int times) {
  if (times == 0) return std::nullopt;
  const auto& [input, output] = tensors;
  const Pattern pattern(input.dtype, op, library.rank(), library.size());
  const bool apart = library.on_device();
  const Memory copy = apart ? pages(std::max(input.bytes(), output.bytes())) : Memory();
  const Tensor written = apart ? Tensor(copy.get(), input.count, input.dtype) : input;
  const ConstTensor read = apart ? ConstTensor(copy.get(), output.count, output.dtype) : output;
  std::uint64_t wrong = 0;
  for (int i = 0; i < times; i++) {
    pattern.fill(written);
    if (apart) library.copy(input.data, copy.get(), input.bytes());
    call();
    if (apart) library.copy(copy.get(), output.data, output.bytes());
    wrong += count_wrong(kind, read, op, library.rank(), library.size());
  }
  return std::uint64_t(over_ranks(library, double(wrong), Op::sum));
}

}  // namespace anello::bench
