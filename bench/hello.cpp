// anello-bench-hello: joins its world, waits once for all ranks, and leaves. bench/startup.sh times it.
#include <anello/anello.hpp>

int main() {
  anello::World world = anello::init();
  world.barrier();
  world.finish();
}
