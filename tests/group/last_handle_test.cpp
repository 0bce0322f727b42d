// The last handle of a group: operations that were started go on, wherever the handle is destroyed.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <csignal>
#include <memory>
#include <optional>
#include <thread>

#include "tests/support/in_child.hpp"
#include "tests/support/worlds.hpp"

namespace anello::group {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A group's last handle is destroyed while an operation is under way. The operation goes on.
TEST(Groups, EndAfterTheWorkThatWasStarted) {
  run_world(2, [](World& world) {
    for (int k = 0; k < 6; k++) {
      std::vector<float> values(100'000, 1.F), more(10, 1.F);
      std::atomic<int> received = 0;
      Work work;
      {
        Group group = world.split(0);
        work = group.allreduce_async(values);
        if (world.rank() == 0)
          group.send_async(more, 1).when_done([&](const Error* error) { received = error ? 2 : 1; });
        if (world.rank() == 1)
          group.recv_async(more, 0).when_done([&](const Error* error) { received = error ? 2 : 1; });
      }
      if (k % 3 == 1) world.barrier();
      if (k % 3 == 2) std::this_thread::sleep_for(milliseconds(2));
      work.wait();
      EXPECT_EQ(values.back(), 2.F);
      while (received == 0) std::this_thread::yield();
      EXPECT_EQ(received, 1);
    }
    world.finish();
  });
}

// A callback that has a group's last handle.
class LastHandle {
 public:
  LastHandle(Group group, std::atomic<bool>& dropped) : group_(std::move(group)), dropped_(dropped) {}
  LastHandle(const LastHandle&) = delete;
  ~LastHandle() {
    group_.reset();
    dropped_ = true;
  }

 private:
  std::optional<Group> group_;
  std::atomic<bool>& dropped_;
};

TEST(Groups, EndInTheirOwnCallback) {
  run_world(2, [](World& world) {
    for (int k = 0; k < 20; k++) {
      std::vector<float> values(k % 2 ? 100'000 : 10, 1.F);
      std::atomic<bool> dropped = false;
      Work work;
      {
        Group group = world.group({0, 1});
        work = group.allreduce_async(values);
        work.when_done([last = std::make_shared<LastHandle>(std::move(group), dropped)](const Error*) {});
      }
      if (k % 4 < 2) work.wait();
      while (!dropped) std::this_thread::yield();
      EXPECT_EQ(values.back(), 2.F);
    }
    world.barrier();
  });
}

void wait_for(const std::atomic<bool>& flag) {
  const auto end = std::chrono::steady_clock::now() + seconds(60);
  while (!flag && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(milliseconds(1));
}

// A callback destroys its group's last handle when the world has begun to leave and waits for another group's callback.
TEST(Groups, EndInTheirOwnCallbackWhileTheWorldEnds) {
  std::array<std::atomic<bool>, 2> dropped{}, calls{};
  std::vector<std::thread> waiting(2);
  run_world(2, [&](World& world) {
    auto& is_dropped = dropped[std::size_t(world.rank())];
    auto& is_called = calls[std::size_t(world.rank())];
    std::atomic<bool> is_other_called = false;
    Group other = world.group({0, 1});
    other.barrier_async().when_done([&](const Error*) {
      is_other_called = true;
      wait_for(is_dropped);
    });
    wait_for(is_other_called);
    Group group = world.group({0, 1});
    Work work = group.barrier_async();
    const auto last = std::make_shared<LastHandle>(std::move(group), is_dropped);
    work.when_done([&is_called, last, probe = Group(world), self = world.rank()](const Error*) {
      is_called = true;
      try {
        for (;;) static_cast<void>(probe.group({self}));
      } catch (const Error&) {
        std::this_thread::sleep_for(milliseconds(20));
      }
    });
    waiting[std::size_t(world.rank())] = std::thread([work] { work.wait(); });
    wait_for(is_called);
  });
  for (std::thread& thread : waiting) thread.join();
  EXPECT_TRUE(dropped[0] && dropped[1]);
}

// A world's end waits for the thread of the callback, so the callback must not end the world.
TEST(Groups, AWorldThatEndsInItsOwnCallbackEndsTheProcess) {
  EXPECT_EQ(in_child([] {
              std::atomic<bool> asked = false, ended = false;
              run_world(2, [&](World& world) {
                std::vector<float> values(10, 1);
                while (world.rank() == 1 && !asked) std::this_thread::yield();
                std::optional<World> mine(std::move(world));
                const Work work = mine->allreduce_async(values);
                if (mine->rank() == 1) return work.wait();
                Work(work).when_done([&](const Error*) {
                  mine.reset();
                  ended = true;
                });
                asked = true;
                while (!ended) std::this_thread::yield();
              });
              return 0;
            }),
            -SIGABRT);
}

}  // namespace
}  // namespace anello::group
