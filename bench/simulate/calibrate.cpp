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

constexpr int kRounds = 200, kCalls = 20;
constexpr std::size_t kCopied = 64 << 10, kReduced = 256 << 10;  // one message; what the second-level cache holds

constexpr double kMinCopyUs = 0.1;  // no machine is faster; less is noise

// Of a call, in the best of some rounds: what is not the machine's own only adds.
template <class Call>
double min_us(int calls, Call call) {
  using Clock = std::chrono::steady_clock;
  double least = std::numeric_limits<double>::max();
  for (int round = 0; round < kRounds; round++) {
    const auto start = Clock::now();
    for (int i = 0; i < calls; i++) call();
    const std::chrono::duration<double, std::micro> taken = Clock::now() - start;
    least = std::min(least, taken.count() / calls);
  }
  return least;
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
        const double mine = min_us(kCalls, [&] { world.allreduce(std::span(&value, 1), Op::max); });
        if (world.rank() == 0) us = mine;
      },
      settings);
  return us;
}

// This thread, and those that it makes, on the first `cores` of its cores, until this is gone.
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
  return predict({algorithm, ranks, ranks, 1, 0}, cluster, sizeof(float)).played.us;
}

// What the model needs to take as long as was measured, where it takes longer by a multiple of `part`; at least 0.
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
  const auto message_us = [&](std::size_t bytes) {  // two are sent, two received
    return min_us(kCalls, [&] { move_both_ways(pair, std::span(from).first(bytes), std::span(to).first(bytes)); }) / 4;
  };
  cluster.message_us = message_us(sizeof(float));
  cluster.copy_rate = kCopied / std::max(message_us(kCopied) - cluster.message_us, kMinCopyUs);
  const Arithmetic sum = arithmetic(DType::f32, Op::sum);
  cluster.reduce_rate =
      kReduced / min_us(kCalls, [&] { sum.combine(to.data(), to.data(), from.data(), kReduced >> sum.shift); });

  const OnFewCores two(2);
  if (two.cores() == 2)
    fit(cluster, &Cluster::local_latency_us, allreduce_us(2, "one_shot"), 2, 2, Algorithm::one_shot);
  const int many = 2 * two.cores();
  fit(cluster, &Cluster::switch_us, allreduce_us(many, "star"), many, two.cores(), Algorithm::star);
}

}  // namespace anello::bench
