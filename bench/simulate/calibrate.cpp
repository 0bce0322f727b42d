#include "bench/simulate/calibrate.hpp"

#include <sched.h>

#include <algorithm>
#include <anello/testing.hpp>
#include <chrono>
#include <limits>
#include <vector>

#include "bench/micro/link_pair.hpp"
#include "bench/simulate/predict.hpp"
#include "ring/run/arithmetic.hpp"

namespace anello::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMaxRounds = 200, kCalls = 20;
// Time for one measurement; kMaxRounds rounds take less, except on a busy machine.
constexpr std::chrono::seconds kBudget{1};
constexpr std::size_t kCopied = 64 << 10;    // bytes of the message that is measured
constexpr std::size_t kReduced = 256 << 10;  // bytes of a buffer to reduce, which fits the second-level cache
constexpr double kMinCopyUs = 0.1;  // minimum for kCopied bytes; no machine is faster, so a smaller value is noise

// Returns the time of a call: the minimum of several rounds, because other work on the machine can only increase a
// time. After each round, calls ends(spent); `spent`: the budget of time is spent. `ends` returns true to end after
// this round.
template <class Call, class Ends>
double min_us(Call call, Ends ends) {
  const auto begin = Clock::now();
  double min = std::numeric_limits<double>::max();
  for (int round = 0; round < kMaxRounds; round++) {
    const auto start = Clock::now();
    for (int i = 0; i < kCalls; i++) call();
    const std::chrono::duration<double, std::micro> taken = Clock::now() - start;
    min = std::min(min, taken.count() / kCalls);
    if (ends(Clock::now() - begin > kBudget)) break;
  }
  return min;
}
template <class Call>
double min_us(Call call) {
  return min_us(call, [](bool spent) { return spent; });
}

double allreduce_us(int ranks, const char* algorithm) {
  Settings settings;
  settings.algorithm = algorithm;
  settings.transport = "tcp";
  double us = 0;
  run_world(
      ranks,
      [&](World& world) {
        float value = 0;
        const auto call = [&] { world.allreduce(std::span(&value, 1), Op::max); };
        const double own_us = min_us(call, [&](bool spent) {
          value = spent ? 1 : 0;
          call();  // gives all ranks the maximum of `value`, so that they end after the same round
          return value > 0;
        });
        if (world.rank() == 0) us = own_us;
      },
      settings);
  return us;
}

// Restricts this thread, and the threads that it starts, to `cores` of its cores. Ends the restriction when this object
// is destroyed.
class OnFewCores {
 public:
  explicit OnFewCores(int cores) {
    sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t few;
    CPU_ZERO(&few);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&few) < cores; cpu++)
      if (CPU_ISSET(cpu, &before_)) CPU_SET(cpu, &few);
    cores_ = CPU_COUNT(&few);
    sched_setaffinity(0, sizeof few, &few);
  }
  ~OnFewCores() { sched_setaffinity(0, sizeof before_, &before_); }
  OnFewCores(const OnFewCores&) = delete;
  OnFewCores& operator=(const OnFewCores&) = delete;
  int cores() const { return cores_; }

 private:
  cpu_set_t before_{};
  int cores_ = 0;
};

double predicted_us(Cluster cluster, int ranks, int cores, Algorithm algorithm) {
  cluster.ranks_per_host = ranks;
  cluster.cores = cores;
  return predict({algorithm, ranks, ranks, 1, 0}, cluster, sizeof(float)).result.us;
}

// Sets `part` to the value, at least 0, for which the model's time equals the measured time. The model's time grows
// linearly with `part`.
void fit(Cluster& cluster, double Cluster::*part, double measured_us, int ranks, int cores, Algorithm algorithm) {
  const auto with = [&](double us) {
    cluster.*part = us;
    return predicted_us(cluster, ranks, cores, algorithm);
  };
  const double none = with(0), each = with(1) - none;
  cluster.*part = each > 0 ? std::max(0.0, (measured_us - none) / each) : 0;
}

}  // namespace

void calibrate(Cluster& cluster) {
  LinkPair pair;
  std::vector<std::byte> from(kReduced), to(kReduced);
  const auto message_us = [&](std::size_t bytes) {  // a call sends two messages and receives two
    return min_us([&] { move_both_ways(pair, std::span(from).first(bytes), std::span(to).first(bytes)); }) / 4;
  };
  cluster.message_us = message_us(sizeof(float));
  cluster.copy_rate = kCopied / std::max(message_us(kCopied) - cluster.message_us, kMinCopyUs);
  const run::Arithmetic sum = run::arithmetic(DType::f32, Op::sum);
  cluster.reduce_rate =
      kReduced / min_us([&] { sum.combine(to.data(), to.data(), from.data(), kReduced >> sum.shift); });

  const OnFewCores two(2);
  if (two.cores() == 2)
    fit(cluster, &Cluster::local_latency_us, allreduce_us(2, "one_shot"), 2, 2, Algorithm::one_shot);
  const int many = 2 * two.cores();
  fit(cluster, &Cluster::switch_us, allreduce_us(many, "star"), many, two.cores(), Algorithm::star);
}

}  // namespace anello::bench
