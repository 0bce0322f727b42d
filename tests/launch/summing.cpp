// A rank that reduces once, waits for all and leaves. Its status is 4 if the sum is wrong.
#include <anello/anello.hpp>
#include <vector>

int main() {
  anello::World world = anello::init();
  std::vector<int> sum{world.rank()};
  world.allreduce(sum);
  world.barrier();
  world.finish();
  return sum[0] == world.size() * (world.size() - 1) / 2 ? 0 : 4;
}
