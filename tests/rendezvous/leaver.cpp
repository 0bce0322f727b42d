// leaver HOW: two ranks. Rank 1 ends its process in the way HOW while its World is alive. Rank 0 prints why it cannot
// go on.
#include <anello/anello.h>
#include <sys/wait.h>
#include <unistd.h>

#include <anello/anello.hpp>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "tests/support/faults.hpp"

namespace {

anello::World* world = nullptr;      // never freed
anello::Group* group = nullptr;      // never freed
std::optional<anello::World> owner;  // a static object that owns the world

struct Finisher {
  bool finishes = false;
  ~Finisher() {
    if (finishes) world->finish();
  }
} finisher;  // made before there is a world; its destructor uses the world

[[noreturn]] void wait_for_ever() {
  try {
    world->barrier();
  } catch (const anello::Error&) {
  }
  while (true) pause();
}

void end_as(std::string_view how) {
  if (how == "owned") {
    owner = std::move(*world);
    std::exit(0);
  }
  if (how == "owned 3") {
    owner = std::move(*world);
    std::exit(3);
  }
  if (how == "static") {
    static anello::World last = std::move(*world);
    std::exit(0);
  }
  if (how.ends_with("without memory")) {
    anello::faults::plan({.memory = 0, .for_ever = true});
    std::exit(how.starts_with("exit 3") ? 3 : 0);
  }
  if (how == "exit 3") std::exit(3);
  if (how == "_exit") _exit(0);
  if (how == "quick_exit") std::quick_exit(0);
  if (how == "child") {
    if (fork() == 0) std::exit(0);
    wait(nullptr);
    usleep(300'000);  // by now rank 0 would have got an error
    std::exit(5);
  }
  if (how == "busy") {
    std::thread(wait_for_ever).detach();
    usleep(100'000);
  }
  std::exit(0);
}

// Does not free the handle.
int main_in_c() {
  anello_world* handle = nullptr;
  if (anello_init(nullptr, &handle) != ANELLO_OK) return 1;
  anello_group* const all = anello_world_group(handle);
  anello_barrier(all, nullptr, nullptr);
  if (anello_rank(all) == 1) return 0;
  const anello_status status = anello_barrier(all, nullptr, nullptr);
  std::printf("%s, rank %d: %s\n", anello_status_name(status), anello_last_error_rank(), anello_last_error());
  return 0;
}

}  // namespace

int main(int, char** argv) {
  const std::string_view how = argv[1];
  if (how == "C") return main_in_c();
  world = new anello::World(anello::init());
  group = new anello::Group(world->group({0, 1}));
  group->barrier();
  finisher.finishes = how == "finish";
  if (world->rank() == 1 || finisher.finishes) end_as(how);
  try {
    float value = 0;
    world->recv(anello::Tensor(&value, 1), 1);
  } catch (const anello::Error& error) {
    std::printf("%s, rank %d: %s\n", std::string(name(error.code())).c_str(), error.rank(), error.what());
  }
}
