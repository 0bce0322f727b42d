// thrower WHAT: two ranks. Rank 1 throws the exception that WHAT names. Rank 0 prints why its barrier failed.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <anello/anello.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/support/faults.hpp"

namespace {

[[noreturn]] void own_handler() {
  std::puts("the program's own handler");
  std::fflush(stdout);
  std::_Exit(7);
}

void throw_it(std::string_view what) {
  std::printf("thrown\n");  // not flushed
  if (what == "number") throw 5;
  if (what == "other" || what == "caught" || what == "thread") throw std::runtime_error("cannot read part-0007.h5");
  throw anello::Error(anello::ErrorCode::file, "cannot read part-0007.h5");
}

void throw_in_child() {
  std::printf("before the fork\n");  // not flushed
  if (fork() == 0) {
    alarm(20);
    throw_it("child");
  }
  int status = 0;
  wait(&status);
  std::printf("signal %d\n", WTERMSIG(status));
}

rlim_t address_space_bytes() {
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * rlim_t(sysconf(_SC_PAGESIZE));
}

// Limits the program's memory to the present amount, uses all of it, and throws the exception of the next allocation.
[[noreturn]] void use_up_memory() {
  static std::vector<std::unique_ptr<char[]>> all;
  all.reserve(1 << 20);
  const rlimit limit{address_space_bytes(), RLIM_INFINITY};
  setrlimit(RLIMIT_AS, &limit);
  for (std::size_t bytes = std::size_t(16) << 20;;) {
    char* const more = new (std::nothrow) char[bytes];
    if (more)
      all.emplace_back(more);
    else if (bytes > 16)
      bytes /= 2;
    else
      throw std::bad_alloc();
  }
}

// Lets the library's threads lack memory, once or from now on, and waits for the world's failure.
[[noreturn]] void wait_for_failure(const anello::World& world, int failing) {
  anello::faults::fail_allocations_of_others(failing);
  while (!world.failure()) usleep(10'000);
  throw *world.failure();
}

void end_without_memory(const anello::World& world, std::string_view what) {
  if (what == "no memory") use_up_memory();
  if (what == "no memory here") {
    anello::faults::plan({.memory = 0, .for_ever = true});
    throw std::bad_alloc();
  }
  if (what == "no memory elsewhere, once") wait_for_failure(world, 1);
  if (what == "no memory elsewhere") wait_for_failure(world, std::numeric_limits<int>::max());
}

void rank_main(std::string_view what) {
  anello::World world = anello::init();
  std::optional<anello::World> second;  // of one rank
  if (what == "thread") second = anello::init(anello::Settings{});
  if (what == "later handler") std::set_terminate(own_handler);
  world.barrier();
  if (world.rank() == 1 && what == "thread") std::thread(throw_it, what).join();
  if (world.rank() == 1 && what == "nothing thrown") std::terminate();
  if (world.rank() == 1 && what == "child") throw_in_child();
  if (world.rank() == 1) end_without_memory(world, what);
  if (world.rank() == 1 && what != "child") throw_it(what);
  world.barrier();
}

}  // namespace

int main(int, char** argv) {
  const std::string what = argv[1];
  if (what == "handler") std::set_terminate(own_handler);
  if (std::getenv("ANELLO_RANK") == std::string_view("1") && what != "caught") return rank_main(what), 0;
  try {
    rank_main(what);
  } catch (const std::exception& error) {
    std::puts(error.what());
  }
}
