// A rank that forks: the child is not a rank, and takes nothing from its parent.
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <anello/memory.hpp>
#include <functional>
#include <optional>

#include "tests/support/in_child.hpp"
#include "tests/support/worlds.hpp"

namespace anello::world {
namespace {

template <class Call>
bool refuses(Call call) {
  try {
    call();
    return false;
  } catch (const Error& e) {
    return e.code() == ErrorCode::invalid_argument &&
           std::string_view(e.what()).find("is a child that fork() made") != std::string_view::npos;
  }
}

constexpr int kRight = 7;

TEST(Fork, TheChildCanNeitherSpeakNorWipe) {
  run_world(2, [](World& world) {
    std::vector<float, Allocator<float>> tensor(100'000, 1.F);
    std::vector<float> other(1000, 1.F);
    std::optional<Group> group = world.group({0, 1});
    world.allreduce(tensor);
    group->allreduce_async(tensor).wait();
    world.allreduce_async(other).wait();
    Work pending;
    if (world.rank() == 0) pending = group->allreduce_async(tensor);  // the other rank comes later
    const int returned = in_child([&] {
      std::vector<std::function<void()>> calls = {[&] { world.allreduce(other); },
                                                  [&] { group->barrier(); },
                                                  [&] { (void)world.barrier_async(); },
                                                  [&] { (void)world.split(0); },
                                                  [&] {
                                                    (void)world.group({0, 1});
                                                  },
                                                  [&] { world.finish(); },
                                                  [&] { world.send(other, 1 - world.rank()); },
                                                  [&] { (void)world.probe(1 - world.rank()); },
                                                  [&] { (void)world.counters(); },
                                                  [&] { world.write_flight("/dev/null"); }};
      if (world.rank() == 0) {
        calls.emplace_back([&] { pending.wait(); });
        calls.emplace_back([&] { pending.when_done([](const Error*) {}); });
      }
      for (std::size_t k = 0; k < calls.size(); k++)
        if (!refuses(calls[k])) return int(100 + k);
      world.abort("by the child");
      group.reset();
      { const World ends = std::move(world); }
      std::vector<float, Allocator<float>>().swap(tensor);
      return kRight;
    });
    EXPECT_EQ(returned, kRight);
    for (const float value : tensor) ASSERT_EQ(value, 4.F);
    world.barrier();
    if (world.rank() == 1) group->allreduce(tensor);
    if (world.rank() == 0) pending.wait();
    EXPECT_EQ(tensor[99'999], 8.F);
    world.finish();
  });
}

// Counts the sockets of this process. Allocates no memory, because another thread may have held the allocator's lock at
// the fork. Leaves out the standard streams, which may be sockets of the test's parent.
int open_sockets() {
  int count = 0;
  for (int fd = STDERR_FILENO + 1; fd < 1024; fd++) {
    struct stat status {};
    count += fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode);
  }
  return count;
}

// A rank forks workers in the middle of its work. Each worker destroys the objects that a returning program destroys.
TEST(Fork, ChildrenHaveNoSocketOfARankAndDoNotDisturbIt) {
  constexpr int kForks = 20;
  run_world(3, [](World& world) {
    std::vector<int> small(10), large(10'000);
    std::optional<Group> group = world.group({2, 1, 0});
    for (int k = 0; k < kForks; k++) {
      for (std::vector<int>* values : {&small, &large}) {
        std::fill(values->begin(), values->end(), world.rank() + k);
        Work sum = group->allreduce_async(*values);
        world.barrier();
        if (world.rank() == k % world.size()) {
          EXPECT_EQ(in_child([&] {
                      const int sockets = open_sockets();
                      { const World ends = std::move(world); }
                      group.reset();
                      return sockets == 0 ? kRight : 100 + sockets;
                    }),
                    kRight);
        }
        sum.wait();
        ASSERT_THAT(*values, ::testing::Each(3 + 3 * k));
      }
      if (k % 10 == 0) group = world.group({2, 1, 0});
    }
    world.finish();
  });
}

}  // namespace
}  // namespace anello::world
