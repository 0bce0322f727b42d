// trainee STEPS MILLISECONDS WORLD [WEIGHTS [BALLAST]]: a process of an elastic job.
#include "trainee_main.hpp"

int main(int argc, char** argv) {
  return anello::trainee::run({argv + 1, argv + argc}, [](anello::elastic::Job& job) -> anello::trainee::Sum {
    return [&world = job.world()](auto& gradient) { world.allreduce(gradient, anello::Op::sum); };
  });
}
