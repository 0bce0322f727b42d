// Random programs, equal on all ranks: they make and drop groups, and carry out operations of all kinds, which block,
// or are started and waited for later. ANELLO_SEED repeats one program.
#include <gtest/gtest.h>

#include <deque>
#include <numeric>
#include <optional>

#include "ring/base/text.hpp"
#include "tests/support/started.hpp"
#include "tests/support/worlds.hpp"

namespace anello::world {
namespace {

class Program {
 public:
  Program(World& world, std::uint64_t seed)
      : world_(world), common_(seed), own_(seed * 1000 + std::uint64_t(world.rank())) {
    groups_.emplace_back(world);
  }

  void run(int steps) {
    for (int step = 0; step < steps && !testing::Test::HasFailure(); step++) {
      if (groups_.size() < 6 && common_.percent(6)) make_group();
      if (groups_.size() > 1 && common_.percent(4)) drop_group();
      operate();
      while (!started_.empty() && own_.percent(30)) settle(own_.below(started_.size()));
    }
    while (!started_.empty()) settle(own_.below(started_.size()));
    world_.barrier();
  }

 private:
  // All ranks draw the same members, which are some or all of them, in the same order.
  void make_group() {
    std::vector<int> all(std::size_t(world_.size()));
    std::iota(all.begin(), all.end(), 0);
    common_.shuffle(all);
    all.resize(common_.from(1, all.size()));
    const bool member = std::find(all.begin(), all.end(), world_.rank()) != all.end();
    groups_.push_back(member ? std::optional<Group>(world_.group(all)) : std::nullopt);
  }

  // Drops the group once this rank's work in it is done; other ranks may still use it.
  void drop_group() {
    const std::size_t which = common_.from(1, groups_.size() - 1);
    while (!started_.empty()) settle(0);
    groups_.erase(groups_.begin() + std::ptrdiff_t(which));
  }

  void operate() {
    std::optional<Group>& group = groups_[common_.below(groups_.size())];
    const bool blocks = common_.percent(40);
    Random drawn(common_.next());
    if (!group) return;
    const Exercise exercise = any_exercise(group->size(), drawn);
    if (blocks)
      EXPECT_EQ(carry_out(*group, exercise), "");
    else
      started_.emplace_back(*group, exercise);
  }

  void settle(std::size_t which) {
    Started one = std::move(started_[which]);
    started_.erase(started_.begin() + std::ptrdiff_t(which));
    one.work.wait();
    EXPECT_EQ(one.part->wrong(), "");
  }

  World& world_;
  Random common_, own_;  // common_: equal on all ranks; own_: different on each
  std::vector<std::optional<Group>> groups_;
  std::deque<Started> started_;
};

const std::vector<int> kSizes = kSlowdown > 1 ? std::vector<int>{2, 5} : std::vector<int>{2, 3, 4, 5};

class ProgramsInWorldsOf : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, ProgramsInWorldsOf, testing::ValuesIn(kSizes));

TEST_P(ProgramsInWorldsOf, ComeToTheirEnd) {
  for (const std::uint64_t seed : seeds(24)) {
    SCOPED_TRACE(replay(seed));
    Settings settings = Settings::from_environment();
    if (seed % 3 == 1) {
      settings.socket_buffer_bytes = 4096;
      settings.shm_bytes = 1024;
      settings.slab_bytes = 3000;
    }
    run_world(
        GetParam(), [&](World& world) { Program(world, seed).run(150); }, settings);
  }
}

}  // namespace
}  // namespace anello::world
