// starter ATTEMPTS [wait]: a rank that joins, waits for all and leaves. Prints "started" before it joins. Then prints,
// for example, "rank 1 of 3", or for each failed attempt the error and the rank that the error names. `wait`: joins
// after a line of standard input.
#include <anello/anello.hpp>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a test waits for single lines
  std::puts("started");
  std::string line;
  if (argc > 2) std::getline(std::cin, line);
  for (int left = std::atoi(argv[1]); left > 0; left--) try {
      anello::World world = anello::init();
      world.barrier();
      world.finish();
      std::printf("rank %d of %d\n", world.rank(), world.size());
      return 0;
    } catch (const anello::Error& error) {
      std::printf("%s (rank %d)\n", error.what(), error.rank());
    }
  return 1;
}
