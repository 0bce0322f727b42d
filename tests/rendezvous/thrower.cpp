// thrower WHAT: two ranks. Rank 1 throws what its argument says; rank 0 prints why its barrier failed.
#include <sys/wait.h>
#include <unistd.h>

#include <anello/anello.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

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

void rank_main(std::string_view what) {
  anello::World world = anello::init();
  std::optional<anello::World> second;  // of one rank
  if (what == "thread") second = anello::init(anello::Settings{});
  if (what == "later handler") std::set_terminate(own_handler);
  world.barrier();
  if (world.rank() == 1 && what == "thread") std::thread(throw_it, what).join();
  if (world.rank() == 1 && what == "nothing thrown") std::terminate();
  if (world.rank() == 1 && what == "child") throw_in_child();
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
