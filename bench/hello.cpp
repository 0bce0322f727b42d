// anello-bench-hello BYTES: calls an allreduce of BYTES bytes twice, and then leaves the world. For each of the two
// calls, rank 0 prints the time of the slowest rank, and the ranks' mean processor time. The first call includes
// planning and connecting.
#include <sys/resource.h>

#include <anello/anello.hpp>
#include <array>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <vector>

namespace {

double processor_ms() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto ms = [](const timeval& time) { return double(time.tv_sec) * 1e3 + double(time.tv_usec) / 1e3; };
  return ms(used.ru_utime) + ms(used.ru_stime);
}

struct Cost {
  double ms = 0, processor_ms = 0;
};

Cost cost_of_allreduce(anello::World& world, std::vector<float>& values) {
  const double processor = processor_ms();
  const auto began = std::chrono::steady_clock::now();
  world.allreduce(values);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - began;
  return {took.count(), processor_ms() - processor};
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t bytes = argc > 1 ? std::size_t(std::strtoull(argv[1], nullptr, 10)) : 0;
  if (argc > 2 || (argc == 2 && bytes < sizeof(float))) {
    std::cerr << "usage: anello-bench-hello [BYTES, 4 or more]\n";
    return 2;
  }
  anello::World world = anello::init();
  if (bytes > 0) {
    std::vector<float> values(bytes / sizeof(float));
    std::array<Cost, 2> costs;
    for (Cost& cost : costs) cost = cost_of_allreduce(world, values);
    for (Cost& cost : costs) {
      world.allreduce(std::span(&cost.ms, 1), anello::Op::max);
      world.allreduce(std::span(&cost.processor_ms, 1));
      if (world.rank() == 0)
        std::cout << (&cost == costs.data() ? "first: " : "then: ") << cost.ms << " ms, processor "
                  << cost.processor_ms / world.size() << " ms a rank\n";
    }
  }
  world.barrier();
  world.finish();
}
