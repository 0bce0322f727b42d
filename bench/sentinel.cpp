// anello-bench-sentinel: prints the state of this machine as one number, measured in 20 ms: the nanoseconds that a
// cache line needs from one core to another, or 0 if there is only one core. The state changes when a virtual machine
// is moved to cores that are closer together or farther apart, or when other virtual machines have more or less work.
// Figures from two different states cannot be compared.
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

double since_ns(Clock::time_point start) {
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

// Neither a delay by the scheduler nor a single very short measurement changes this value much.
double lower_quartile(std::vector<double>& values) {
  std::ranges::sort(values);
  return values.empty() ? 0 : values[values.size() / 4];
}

std::vector<int> cores() {
  cpu_set_t set;
  std::vector<int> all;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return all;
  for (int core = 0; core < CPU_SETSIZE; core++)
    if (CPU_ISSET(core, &set)) all.push_back(core);
  return all;
}

void pin(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

double cache_line_ns() {
  constexpr std::uint32_t kTrips = 500;
  constexpr double kBudgetNs = 20e6;
  const std::vector<int> all = cores();
  if (all.size() < 2) return 0;
  alignas(64) std::atomic<std::uint32_t> turn = 0;  // if even, it is this thread's turn; if odd, the other thread's
  std::atomic<bool> stop = false;
  std::thread other([&] {
    pin(all.back());
    while (!stop.load(std::memory_order_relaxed)) {
      const std::uint32_t seen = turn.load(std::memory_order_acquire);
      if (seen % 2 == 1) turn.store(seen + 1, std::memory_order_release);
    }
  });
  std::vector<double> one_way_ns;
  std::thread([&] {
    pin(all.front());
    std::uint32_t at = 0;
    for (const auto begin = Clock::now(); since_ns(begin) < kBudgetNs;) {
      const auto start = Clock::now();
      for (std::uint32_t i = 0; i < kTrips; i++) {
        turn.store(at + 1, std::memory_order_release);
        at += 2;
        while (turn.load(std::memory_order_acquire) != at) {
        }
      }
      one_way_ns.push_back(since_ns(start) / kTrips / 2);
    }
  }).join();
  stop = true;
  other.join();
  return lower_quartile(one_way_ns);
}

}  // namespace

int main() {
  std::printf("%.1f\n", cache_line_ns());
}
