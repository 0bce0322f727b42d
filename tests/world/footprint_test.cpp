// The descriptors and threads of a rank, for a world, a group, transfers each way and between all pairs.
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/resources.hpp"
#include "tests/support/worlds.hpp"

namespace anello::world {
namespace {

struct Held {
  std::ptrdiff_t descriptors = 0, threads = 0;
  bool operator==(const Held&) const = default;
};
void PrintTo(const Held& held, std::ostream* out) {
  *out << held.descriptors << " descriptors, " << held.threads << " threads";
}

constexpr std::size_t kCount = 100;

// Every rank sends to the ranks at distances `from` to `to - 1` after it, and receives from the ranks at these
// distances before it.
void transfer(World& world, int from, int to) {
  const int n = world.size(), rank = world.rank();
  std::vector<float> values(kCount, 1.F), received(kCount);
  for (int distance = from; distance < to; distance++) {
    Work sent = world.send_async(values, (rank + distance) % n);
    world.recv_async(received, (rank + n - distance) % n).wait();
    sent.wait();
  }
}

// Returns the open descriptors, except for the one that lists them. An entry has the descriptor's number and its file,
// so another socket with the same number is another entry.
std::set<std::string> opened() {
  std::set<std::string> all;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code closed;
    const auto what = std::filesystem::read_symlink(entry.path(), closed);
    if (!closed && !what.string().starts_with("/proc/"))
      all.insert(entry.path().filename().string() + " " + what.string());
  }
  return all;
}

struct Snapshot {
  std::set<std::string> descriptors = opened();
  std::ptrdiff_t threads = entries("/proc/self/task");
};

// Counts only new descriptors: an old one that is closed now did not belong to the world, and must not hide a new one.
Held added_since(const Snapshot& before) {
  const Snapshot now;
  return {std::ranges::count_if(now.descriptors, [&](const auto& one) { return !before.descriptors.contains(one); }),
          now.threads - before.threads};
}

// Expects that `use` adds these descriptors and threads to a world of `ranks` in one process. A joined thread may be
// listed for a moment longer, and a process that tries an old port may be connected for some seconds. So a figure
// counts only if it stays unchanged.
template <class Use>
void expect_added(int ranks, const testing::Matcher<const Held&>& expected, Use use) {
  constexpr std::chrono::milliseconds kBetween{5}, kLimit{20000};
  ASSERT_EQ(running_threads(1), 1) << "of an earlier world";
  Held added;
  run_world(ranks, [&](World& world) {
    std::vector<Group> groups;
    for (int warm = 0; warm < 4; warm++) world.barrier();  // opens the world's links
    const Snapshot before;
    world.barrier();
    use(world, groups);
    world.barrier();
    const auto end = std::chrono::steady_clock::now() + kLimit;
    while (world.rank() == 0 && !expected.Matches(added = added_since(before)) &&
           std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(kBetween);
    world.barrier();
  });
  EXPECT_THAT(added, expected);
}

// The descriptors of a link: over TCP a connection; through memory the other side's bell and a socket for files.
std::ptrdiff_t link() {
  return Settings::from_environment().transport == "tcp" ? 1 : 2;
}

TEST(Footprint, AGroupHasABellAndItsLinks) {
  constexpr int kRanks = 2;
  expect_added(kRanks, Held{kRanks * 1, 0}, [](World& world, auto& groups) { groups.push_back(world.group({0, 1})); });
  expect_added(kRanks, Held{kRanks * (1 + link()), 0}, [](World& world, auto& groups) {
    groups.push_back(world.group({0, 1}));
    groups.back().barrier();
  });
}

TEST(Footprint, AllAsynchronousWorkOfARankHasOneThread) {
  constexpr int kRanks = 3;
  expect_added(kRanks, testing::Field(&Held::threads, kRanks * 1), [](World& world, auto& groups) {
    std::vector<float> values(kCount);
    for (int k = 0; k < 3; k++) {
      groups.push_back(world.group({0, 1, 2}));
      groups.back().allreduce_async(values).wait();
    }
    world.allreduce_async(values).wait();
    transfer(world, 1, kRanks);
  });
}

TEST(Footprint, ATransferHasABellAndALink) {
  constexpr int kRanks = 3;  // to one rank, and from another
  expect_added(kRanks, Held{kRanks * 2 * (1 + link()), kRanks}, [](World& world, auto&) { transfer(world, 1, 2); });
}

TEST(Footprint, AllPairs) {
  constexpr int kRanks = 16;
  expect_added(kRanks, Held{kRanks * 2 * (kRanks - 1) * (1 + link()), kRanks},
               [](World& world, auto&) { transfer(world, 1, kRanks); });
}

}  // namespace
}  // namespace anello::world
