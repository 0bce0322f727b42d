// Ranks that do not end when they are asked to: they wait in a barrier for rank 0, and print why the barrier failed.
// With "asleep" rank 0 never comes. With "early" rank 0 leaves the world in good order and exits with status 3. With
// "gone" rank 0 leaves the world while the others wait, and exits with status 0 only when they have ended.
#include <anello/anello.hpp>
#include <csignal>
#include <cstdio>
#include <string_view>
#include <thread>
#include <utility>

namespace {

constexpr std::chrono::seconds kLong{300};
constexpr std::chrono::milliseconds kUntilOthersEnd{600};

int rank_0(std::string_view how, anello::World& world) {
  if (how == "early") return 3;
  if (how == "gone") {
    { const anello::World left = std::move(world); }
    std::this_thread::sleep_for(kUntilOthersEnd);
    return 0;
  }
  std::puts("asleep");
  std::fflush(stdout);
  std::this_thread::sleep_for(kLong);
  return 0;
}

void await_failure(const anello::World& world) {
  const auto end = std::chrono::steady_clock::now() + kLong;
  while (!world.failure() && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGTERM, SIG_IGN);
  const std::string_view how = argc == 2 ? argv[1] : "";
  try {
    anello::World world = anello::init();
    if (world.rank() == 0) return rank_0(how, world);
    if (how == "early") await_failure(world);
    world.barrier();
  } catch (const anello::Error& error) {
    std::printf("code %d, rank %d: %s\n", int(error.code()), error.rank(), error.what());
    std::fprintf(stderr, "%s\n", error.message().c_str());
    return 5;
  }
}
