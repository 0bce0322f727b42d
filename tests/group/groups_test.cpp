// Groups of ranks: they can be made at any time and used beside each other, and ranks that are not members never wait
// for them.
#include <gmock/gmock.h>

#include <atomic>
#include <numeric>
#include <optional>
#include <thread>
#include <tuple>

#include "ring/base/text.hpp"
#include "tests/support/random.hpp"
#include "tests/support/worlds.hpp"

namespace anello::group {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Optional;

// Returns a sum over the group that is different for every set of ranks.
std::int64_t sum_of_members(Group& group, std::size_t count = 100) {
  std::vector<std::int64_t> values(count, std::int64_t(1) << (4 * group.members()[std::size_t(group.rank())]));
  group.allreduce(values);
  for (const std::int64_t value : values) EXPECT_EQ(value, values[0]);
  return values[0];
}

std::int64_t expected_sum(std::span<const int> members) {
  std::int64_t sum = 0;
  for (const int member : members) sum += std::int64_t(1) << (4 * member);
  return sum;
}

void expect_works(Group& group) {
  EXPECT_EQ(sum_of_members(group), expected_sum(group.members()));
}

TEST(Groups, HaveRanksOfTheirOwn) {
  run_world(4, [](World& world) {
    EXPECT_THAT(std::vector<int>(world.members().begin(), world.members().end()), ElementsAre(0, 1, 2, 3));
    if (world.rank() == 2) return;
    Group group = world.group({3, 0, 1});
    EXPECT_EQ(group.size(), 3);
    EXPECT_EQ(group.members()[std::size_t(group.rank())], world.rank());
    EXPECT_THAT(group.rank_of(3), Optional(0));
    EXPECT_THAT(group.rank_of(1), Optional(2));
    EXPECT_EQ(group.rank_of(2), std::nullopt);
    // The root and the order of parts are the group's.
    std::vector<int> all(3), value{world.rank()};
    group.allgather(value, all);
    EXPECT_THAT(all, ElementsAre(3, 0, 1));
    group.broadcast(value, 0);
    EXPECT_EQ(value[0], 3);
  });
}

class GroupsInWorldsOf : public testing::TestWithParam<int> {
 protected:
  // Runs every kind of operation of a world.
  static void exercise(Group& group) {
    for (const Kind kind : {Kind::allreduce, Kind::allgather, Kind::reduce_scatter, Kind::reduce, Kind::alltoall})
      for (const std::uint64_t count : {0, 1, 1000, 20'000}) {
        Exercise one{.kind = kind, .count = count, .uneven = kind == Kind::alltoall};
        EXPECT_EQ(carry_out(group, one), "");
      }
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, GroupsInWorldsOf, testing::ValuesIn(few_world_sizes()));

TEST_P(GroupsInWorldsOf, DoAllThatAWorldDoes) {
  run_world(GetParam(), [](World& world) {
    Group everybody_reversed = world.split(0, -world.rank());
    EXPECT_EQ(everybody_reversed.rank(), world.size() - 1 - world.rank());
    exercise(everybody_reversed);
    Group half = world.split(world.rank() % 2);
    exercise(half);
    Group alone = world.split(world.rank());
    EXPECT_EQ(alone.size(), 1);
    exercise(alone);
    exercise(world);
    Group of_a_group = half.split(half.rank() / 2);
    exercise(of_a_group);
  });
}

TEST_P(GroupsInWorldsOf, ComeAndGo) {
  run_world(GetParam(), [](World& world) {
    for (int k = 0; k < 30 / std::min(kSlowdown, 3); k++) {
      Group half = world.split((world.rank() + k) % 2);
      expect_works(half);
      Group same_again = world.group([&] {
        std::vector<int> all(std::size_t(world.size()));
        std::iota(all.begin(), all.end(), 0);
        return all;
      }());
      expect_works(same_again);
    }
    world.barrier();
  });
}

// The operations of one group go on while those of the other group wait. On some ranks the order of the two groups is
// reversed.
TEST(Groups, OverlapInOppositeOrderOnTwoThreads) {
  run_world(3, [](World& world) {
    constexpr int kRounds = 200 / kSlowdown;
    std::optional<Group> first, second;
    if (world.rank() <= 1) first = world.group({0, 1});
    if (world.rank() >= 1) second = world.group({1, 2});
    std::optional<Group> pair = world.rank() != 1 ? std::optional(world.group({2, 0})) : std::nullopt;
    const auto use = [](std::optional<Group>& group) {
      for (int k = 0; group && k < kRounds; k++) {
        EXPECT_EQ(sum_of_members(*group, 10 + std::size_t(k) * 50), expected_sum(group->members()));
      }
    };
    std::thread one([&] { use(world.rank() == 0 ? pair : first); }),
        two([&] { use(world.rank() == 0 ? first : second); });
    if (world.rank() == 2) use(pair);
    one.join();
    two.join();
    world.barrier();
  });
}

TEST(Groups, OfTheSameMembersAreNotTheSameGroup) {
  run_world(2, [](World& world) {
    Group first = world.group({0, 1}), second = world.group({0, 1});
    std::vector<float> a(1000, 1.F), b(2000, 2.F);
    std::thread other([&] {
      for (int k = 0; k < 50; k++) second.allreduce(b);
    });
    for (int k = 0; k < 50; k++) first.allreduce(a, Op::max);
    other.join();
    EXPECT_EQ(a[0], 1.F);
  });
}

// Two threads, each with a different group, may make parts of their groups in either order.
TEST(Groups, OfTheSameMembersBelongToTheGroupThatMadeThem) {
  run_world(2, [](World& world) {
    Group first = world.group({0, 1}), second = world.group({0, 1});
    std::optional<Group> of_first, of_second;
    if (world.rank() == 0) of_first = first.group({0, 1});
    of_second = second.group({0, 1});
    if (world.rank() == 1) of_first = first.group({0, 1});
    std::vector<float> a(1000, 1.F), b(2000, 2.F);
    of_first->allreduce(a, Op::max);
    of_second->allreduce(b);
    EXPECT_EQ(a[0], 1.F);
    EXPECT_EQ(b[0], 4.F);
  });
}

// The ranks use two groups in opposite order. Blocking calls would wait for each other, but started work does not.
TEST(Groups, StartedWorkOfTwoGroupsInOppositeOrder) {
  run_world(2, [](World& world) {
    Group first = world.group({0, 1}), second = world.group({1, 0});
    std::vector<float> a(50'000, 1.F), b(50'000, 2.F);
    Work one, two;
    if (world.rank() == 0) {
      one = first.allreduce_async(a);
      two = second.allreduce_async(b);
      one.wait();
      two.wait();
    } else {
      two = second.allreduce_async(b);
      one = first.allreduce_async(a);
      two.wait();
      one.wait();
    }
    EXPECT_EQ(a[49'999], 2.F);
    EXPECT_EQ(b[49'999], 4.F);
  });
}

TEST(Groups, RefuseMembersThatAreNone) {
  run_world(3, [](World& world) {
    const auto refused = [&](std::vector<int> members) -> std::string {
      try {
        (void)world.group(members);
        return "";
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
        return e.what();
      }
    };
    EXPECT_THAT(refused({0, 1, 2, 3}), HasSubstr("member 3 is not a rank of this group of 3"));
    EXPECT_THAT(refused({0, 1, 2, 0}), HasSubstr("member 0 is listed twice"));
    EXPECT_THAT(refused({(world.rank() + 1) % 3}), HasSubstr("is making this group but is not one of its members"));
    EXPECT_THAT(refused({}), HasSubstr("is not one of its members"));
    world.barrier();
  });
}

TEST(Groups, AMismatchNamesTheGroupAndRanksOfTheWorld) {
  const std::vector<Told> all = told_on_all_ranks(4, [](World& world) {
    world.barrier();
    if (world.rank() > 0) {
      Group group = world.group({3, 2, 1});
      std::vector<float> values(world.rank() == 2 ? 9 : 10);
      group.allreduce(values);
    }
    world.barrier();
  });
  for (const Told& told : all) {
    ASSERT_TRUE(told.error) << "rank " << told.rank << " was told nothing";
    EXPECT_EQ(told.error->code(), ErrorCode::mismatch);
    EXPECT_THAT(told.error->message(), AllOf(HasSubstr("in group (3, 2, 1) the counts differ"),
                                             HasSubstr("rank 2 calls allreduce #0 (sum of 9 f32)")));
    EXPECT_LT(told.after, seconds(2) + told.lateness);
  }
}

TEST(Groups, AMemberThatPartedIsNamed) {
  const std::vector<Told> all = told_on_all_ranks(3, [](World& world) {
    {
      Group group = world.group({0, 1, 2});
      group.barrier();
      if (world.rank() != 1) group.barrier();
    }
    world.barrier();
  });
  for (const Told& told : all) {
    ASSERT_TRUE(told.error) << "rank " << told.rank << " was told nothing";
    EXPECT_EQ(told.error->code(), ErrorCode::rank_left) << told.error->what();
    EXPECT_THAT(told.error->message(), HasSubstr("rank 1 on localhost left group (0, 1, 2) after 1 operations"));
    EXPECT_LT(told.after, seconds(2) + told.lateness);
  }
}

TEST(Groups, AMemberThatLeftWithoutMakingItIsNamed) {
  const std::vector<Told> all = told_on_all_ranks(3, [](World& world) {
    world.barrier();
    if (world.rank() == 1) return;
    Group group = world.group({0, 1, 2});
    group.barrier();
  });
  for (const Told& told : all) {
    if (told.rank == 1) continue;
    ASSERT_TRUE(told.error) << "rank " << told.rank << " was told nothing";
    EXPECT_EQ(told.error->code(), ErrorCode::rank_left) << told.error->what();
    EXPECT_THAT(told.error->message(), HasSubstr("rank 1 on localhost left group (0, 1, 2) after 0 operations"));
    EXPECT_LT(told.after, seconds(2) + told.lateness);
  }
}

// Some ranks wait in one group, some ranks in another group, and one rank ends the world.
TEST(Groups, AnAbortReachesAllOfThem) {
  const std::vector<Told> all = told_on_all_ranks(4, [](World& world) {
    world.barrier();
    if (world.rank() == 3) {
      std::this_thread::sleep_for(milliseconds(50));
      world.abort("enough");
      return;
    }
    Group group = world.rank() == 0 ? world.group({0, 3}) : world.group({1, 2, 3});
    group.barrier();
  });
  for (const Told& told : all) {
    if (told.rank == 3) continue;
    ASSERT_TRUE(told.error) << "rank " << told.rank << " was told nothing";
    EXPECT_EQ(told.error->code(), ErrorCode::aborted);
    EXPECT_LT(told.after, seconds(2) + told.lateness);
  }
}

// The world ends while another thread waits in a group. The call of that thread fails, and then the world is gone. On a
// busy machine the call may begin only after finish(), and then gets another error: the test tries again.
TEST(Groups, ACallInProgressFailsWhenTheWorldEnds) {
  for (const int how : {0, 1, 2}) {
    bool late = true;
    for (int trial = 0; late && trial < 50; trial++)
      run_world(2, [&](World& world) {
        Group group = world.group({0, 1});
        group.barrier();
        std::thread waits([&] {
          std::vector<float> values(10);
          if (world.rank() == 1) return;
          late = false;
          try {
            if (how == 0) group.allreduce(values);
            if (how == 1) group.allreduce_async(values).wait();
            if (how == 2) (void)group.allreduce_async(values).wait_for(seconds(20));
            ADD_FAILURE() << "nobody else called it";
          } catch (const Error& e) {
            late = e.code() == ErrorCode::invalid_argument;
            // rank_left: the other rank's world ended before this one's.
            EXPECT_TRUE(late || e.code() == ErrorCode::aborted || e.code() == ErrorCode::rank_left) << e.what();
          }
        });
        std::this_thread::sleep_for(milliseconds(30));
        try {
          world.finish();
        } catch (const Error& e) {  // rank 1 has left while rank 0's call was under way
          EXPECT_EQ(e.code(), ErrorCode::rank_left) << e.what();
          EXPECT_EQ(world.rank(), 0) << e.what();
        }
        waits.join();
      });
    EXPECT_FALSE(late) << how;
  }
}

TEST(Groups, AMemberWhoseWorkWasTheLastIsNamed) {
  const std::vector<Told> all = told_on_all_ranks(2, [](World& world) {
    std::vector<float> values(100'000, 1.F);
    Work work;
    std::optional<Group> group = world.group({0, 1});
    if (world.rank() == 0) world.barrier();
    work = group->allreduce_async(values);
    if (world.rank() == 1) group.reset();
    if (world.rank() == 1) world.barrier();
    work.wait();
    if (group) group->barrier();
    world.barrier();
  });
  for (const Told& told : all) {
    ASSERT_TRUE(told.error) << "rank " << told.rank << " was told nothing";
    EXPECT_THAT(told.error->message(), HasSubstr("rank 1 on localhost left group (0, 1) after 1 operations"));
  }
}

TEST(Groups, ThatOutliveTheirWorldHaveItsEndAsTheirFailure) {
  run_world(2, [](World& world) {
    std::optional<Group> group;
    {
      World moved = std::move(world);
      group = moved.group({0, 1});
      expect_works(*group);
      EXPECT_EQ(group->failure(), std::nullopt);
    }
    ASSERT_TRUE(group->failure());
    EXPECT_EQ(group->failure()->code(), ErrorCode::aborted);
    group->abort("too late");
  });
}

// Rank 1 lacks memory before it sends the first byte, so its operation has not begun.
TEST(Groups, ARankWithoutMemoryIsAnErrorOfAll) {
  if (kSlowdown > 1) return;  // a sanitizer ends the process
  const std::vector<Told> all = told_on_all_ranks(3, [](World& world) {
    float one = 1;
    const Tensor huge(&one, PTRDIFF_MAX / 4 / sizeof one, DType::f32);
    // If the other ranks began earlier, they would read memory beyond the end of `one`.
    while (world.rank() != 1 && !world.failure()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    world.allreduce(huge, Op::sum, {.algorithm = "one_shot", .slab_bytes = 0});
  });
  for (const Told& told : all) {
    ASSERT_TRUE(told.error) << "rank " << told.rank << " was told nothing";
    EXPECT_EQ(told.error->code(), ErrorCode::aborted);
    EXPECT_THAT(told.error->message(), HasSubstr("rank 1 cannot go on"));
  }
}

TEST(Groups, OutliveTheirWorldWithoutWorking) {
  run_world(2, [](World& world) {
    std::optional<Group> group, copy;
    {
      World moved = std::move(world);
      group = moved.group({0, 1});
      copy = group;
      expect_works(*copy);
    }
    EXPECT_EQ(group->size(), 2);
    EXPECT_THROW(group->barrier(), Error);
    EXPECT_THROW(std::ignore = copy->split(0), Error);
    EXPECT_THROW((std::ignore = group->group({0, 1})), Error);
  });
}

}  // namespace
}  // namespace anello::group
