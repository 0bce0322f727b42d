// anello-bench: measures the collective operations on this machine. Started on every rank, or alone.
#include "bench/commands.hpp"

int main(int argc, char** argv) {
  return anello::bench::run_anello_bench(argc, argv);
}
