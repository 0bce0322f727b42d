// anello-bench: measures the collective operations on this machine. Start it on every rank of a world, or alone.
#include "bench/commands.hpp"

int main(int argc, char** argv) {
  return anello::bench::run_anello_bench(argc, argv);
}
