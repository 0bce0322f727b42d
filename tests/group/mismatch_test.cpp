// Ranks with different calls: all get the same typed error soon, which names all ranks and both values.
#include <gmock/gmock.h>

#include "ring/base/text.hpp"
#include "tests/support/worlds.hpp"

namespace anello::group {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int kRanks = 4;

// The rank whose call differs.
class OddRank : public testing::TestWithParam<int> {
 protected:
  // The odd rank calls `different` as its operation #1, and the others call `usual`. More calls follow, as in a program
  // that goes on.
  std::vector<Told> told(const Exercise& usual, const Exercise& different) const {
    return told_on_all_ranks(kRanks, [&](World& world) {
      world.barrier();
      carry_out(world, world.rank() == GetParam() ? different : usual);
      for (int k = 0; k < 3; k++) world.barrier();
    });
  }

  void expect_told(const Exercise& usual, const std::string& usual_text, const Exercise& different,
                   const std::string& different_text) const {
    const std::vector<Told> all = told(usual, different);
    for (const Told& told : all) {
      ASSERT_TRUE(told.error) << "rank " << told.rank << " was told nothing";
      EXPECT_EQ(told.error->code(), ErrorCode::mismatch) << told.error->what();
      EXPECT_EQ(told.error->message(), all[0].error->message()) << "rank " << told.rank;
      EXPECT_THAT(told.error->message(), AllOf(HasSubstr(text("rank ", GetParam(), " calls ", different_text)),
                                               HasSubstr(" call " + usual_text)));
      EXPECT_EQ(told.error->rank(), GetParam()) << told.error->what();
      EXPECT_LT(told.after, std::chrono::seconds(5) + told.lateness) << told.error->what();
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Of4, OddRank, testing::Values(0, 1, 3));

const Exercise kUsual{.kind = Kind::allreduce, .op = Op::sum, .dtype = DType::f32, .count = 100};
const std::string kUsualText = "allreduce #1 (sum of 100 f32)";

TEST_P(OddRank, HasAnotherCount) {
  Exercise different = kUsual;
  different.count = 101;
  expect_told(kUsual, kUsualText, different, "allreduce #1 (sum of 101 f32)");
}

// The error has the names of both operations. A rank that does not run for a second cannot send its operation's name.
TEST(Mismatch, GivesTheNamesOfOperations) {
  std::string said;
  for (int k = 0; k < 10 && said.find("'loss'") == said.npos; k++) {
    const std::vector<Told> all = told_on_all_ranks(3, [](World& world) {
      std::vector<float> values(world.rank() == 1 ? 2 : 1);
      world.allreduce(values, Op::sum, {.name = world.rank() == 1 ? "norm" : "loss"});
      world.barrier();
    });
    ASSERT_TRUE(all[1].error);
    said = all[1].error->message();
  }
  EXPECT_THAT(said, HasSubstr("rank 1 calls allreduce #0 (sum of 2 f32) 'norm'"));
  EXPECT_THAT(said, HasSubstr("ranks 0, 2 call allreduce #0 (sum of 1 f32) 'loss'"));
}

TEST(Mismatch, OfAlgorithmsForcedForOneCall) {
  const std::vector<Told> all = told_on_all_ranks(3, [](World& world) {
    std::vector<float> values(100);
    world.allreduce(values, Op::sum, {.algorithm = world.rank() == 1 ? "tree" : "ring"});
    world.barrier();
  });
  for (const Told& told : all) {
    ASSERT_TRUE(told.error) << "rank " << told.rank;
    EXPECT_EQ(told.error->code(), ErrorCode::mismatch);
    EXPECT_THAT(told.error->what(),
                AllOf(HasSubstr("the algorithms differ"), HasSubstr("by tree"), HasSubstr("by ring")));
  }
}

TEST_P(OddRank, SendsInAnotherType) {
  Exercise different = kUsual;
  different.wire = DType::bf16;
  expect_told(kUsual, kUsualText, different, "allreduce #1 (sum of 100 f32 as bf16)");
}

TEST_P(OddRank, HasNoElements) {
  Exercise different = kUsual;
  different.count = 0;
  expect_told(kUsual, kUsualText, different, "allreduce #1 (sum of 0 f32)");
}

TEST_P(OddRank, IsTheOnlyOneWithElements) {
  Exercise usual = kUsual;
  usual.count = 0;
  expect_told(usual, "allreduce #1 (sum of 0 f32)", kUsual, kUsualText);
}

TEST_P(OddRank, HasAnotherDtype) {
  Exercise different = kUsual;
  different.dtype = DType::i32;
  expect_told(kUsual, kUsualText, different, "allreduce #1 (sum of 100 i32)");
}

TEST_P(OddRank, HasAnotherReduction) {
  Exercise different = kUsual;
  different.op = Op::max;
  expect_told(kUsual, kUsualText, different, "allreduce #1 (max of 100 f32)");
}

TEST_P(OddRank, CallsAnotherOperation) {
  expect_told(kUsual, kUsualText, {.kind = Kind::barrier}, "barrier #1");
  expect_told({.kind = Kind::barrier}, "barrier #1", kUsual, kUsualText);
  const Exercise gather{.kind = Kind::allgather, .dtype = DType::f32, .count = 100};
  expect_told(kUsual, kUsualText, gather, "allgather #1 (100 f32)");
}

TEST_P(OddRank, HasOneOtherSplit) {
  const std::vector<Told> all = told_on_all_ranks(kRanks, [&](World& world) {
    world.barrier();
    const bool odd = world.rank() == GetParam();
    const int next = (GetParam() + 1) % kRanks;
    std::vector<std::uint64_t> sends(kRanks, 3), receives(kRanks, 3);
    if (odd) sends[std::size_t(next)] = 5;
    const std::vector<float> input(odd ? 14 : 12);
    std::vector<float> output(12);
    world.alltoall(input, output, sends, receives);
    world.barrier();
  });
  for (const Told& told : all) {
    ASSERT_TRUE(told.error) << "rank " << told.rank << " was told nothing";
    EXPECT_EQ(told.error->code(), ErrorCode::mismatch) << told.error->what();
    EXPECT_THAT(told.error->message(), HasSubstr(text("rank ", GetParam(), " sends 5 elements to rank ",
                                                      (GetParam() + 1) % kRanks, ", which expects 3")));
    EXPECT_EQ(told.error->rank(), -1) << "either may be wrong";
    EXPECT_LT(told.after, std::chrono::seconds(5) + told.lateness) << told.error->what();
  }
}

TEST_P(OddRank, HasOtherParts) {
  const std::vector<Told> all = told_on_all_ranks(kRanks, [&](World& world) {
    const bool odd = world.rank() == GetParam();
    const std::vector<std::uint64_t> usual = {5, 5, 5, 5}, other = {6, 5, 5, 4};
    const std::vector<std::uint64_t>& counts = odd ? other : usual;
    const std::vector<float> input(counts[std::size_t(world.rank())]);
    std::vector<float> output(20);
    world.allgather(input, output, {.counts = counts});
    world.barrier();
  });
  for (const Told& told : all) {
    ASSERT_TRUE(told.error) << "rank " << told.rank << " was told nothing";
    EXPECT_EQ(told.error->code(), ErrorCode::mismatch) << told.error->what();
    EXPECT_THAT(told.error->what(), HasSubstr("the lists of counts (same total)"));
    EXPECT_LT(told.after, std::chrono::seconds(5) + told.lateness) << told.error->what();
  }
}

// The factor is printed to the last digit. A rank that does not run for a second cannot send its factor, so the others
// print less.
TEST_P(OddRank, ScalesByAnotherFactor) {
  std::string said;
  for (int k = 0; k < 10 && said.find("with postscale") == said.npos; k++) {
    const std::vector<Told> all = told_on_all_ranks(kRanks, [&](World& world) {
      std::vector<float> values(20);
      world.allreduce(values, Op::sum, {.postscale = world.rank() == GetParam() ? 0.1 : 0.1000000001});
      world.barrier();
    });
    for (const Told& told : all) ASSERT_TRUE(told.error) << "rank " << told.rank << " was told nothing";
    said = all[0].error->message();
    EXPECT_THAT(said, HasSubstr("postscales"));
  }
  EXPECT_THAT(said,
              AllOf(HasSubstr("the postscales differ: "), HasSubstr("with postscale 0.1000000001"),
                    HasSubstr(text("rank ", GetParam(), " calls allreduce #0 (sum of 20 f32) with postscale 0.1"))));
}

// The differing argument is a number that the program chooses, here the step.
TEST_P(OddRank, IsInAnotherStep) {
  const auto steps = [](World& world, bool agree) {
    const std::uint64_t step = world.rank() == GetParam() && !agree ? 8 : 7;
    std::vector<float> values(20), all(80);
    world.allreduce(values, Op::sum, {.consistency_token = 7});
    world.broadcast(values, 0, {.consistency_token = 7});
    world.allgather(values, all, {.consistency_token = 7});
    world.barrier({.consistency_token = step});
    world.barrier();
  };
  for (const Told& told : told_on_all_ranks(kRanks, [&](World& world) { steps(world, false); })) {
    ASSERT_TRUE(told.error) << "rank " << told.rank << " was told nothing";
    EXPECT_EQ(told.error->code(), ErrorCode::mismatch);
    EXPECT_THAT(told.error->what(), HasSubstr("the consistency tokens differ: rank"));
    EXPECT_EQ(told.error->rank(), GetParam());
  }
  run_world(kRanks, [&](World& world) { steps(world, true); });
}

// The odd rank's count is so large that its call uses another algorithm, on other links.
TEST_P(OddRank, HasAMuchLargerCount) {
  Exercise different = kUsual;
  different.count = 100000;
  expect_told(kUsual, kUsualText, different, "allreduce #1 (sum of 100000 f32)");
}

// The odd rank is the root of its own call, so it sends and is done at once. The other ranks have another root.
TEST_P(OddRank, HasAnotherRoot) {
  const Exercise usual{.kind = Kind::broadcast, .dtype = DType::f32, .count = 100, .root = 2};
  Exercise different = usual;
  different.root = GetParam();
  expect_told(usual, "broadcast #1 (100 f32 from root 2)", different,
              text("broadcast #1 (100 f32 from root ", GetParam(), ")"));
}

// The odd rank sends data that no rank receives. Then it waits in another operation for a rank that does not come.
TEST_P(OddRank, IsAheadThroughSomethingElse) {
  const std::vector<Told> all = told_on_all_ranks(kRanks, [&](World& world) {
    if (world.rank() == GetParam()) {
      carry_out(world, {.kind = Kind::broadcast, .count = 5, .root = world.rank()});
      carry_out(world, {.kind = Kind::broadcast, .count = 5, .root = (world.rank() + 1) % kRanks});
    } else {
      world.barrier();
    }
    world.barrier();
  });
  for (const Told& told : all) {
    ASSERT_TRUE(told.error);
    EXPECT_EQ(told.error->code(), ErrorCode::mismatch) << told.error->what();
    EXPECT_LT(told.after, std::chrono::seconds(5) + told.lateness) << told.error->what();
  }
}

TEST_P(OddRank, LeavesThroughSomethingElse) {
  const std::vector<Told> all = told_on_all_ranks(kRanks, [&](World& world) {
    if (world.rank() == GetParam())
      carry_out(world, {.kind = Kind::broadcast, .count = 5, .root = world.rank()});
    else
      world.barrier();
  });
  for (const Told& told : all) {
    if (told.rank == GetParam()) continue;
    ASSERT_TRUE(told.error);
    EXPECT_THAT(told.error->message(), HasSubstr(text("rank ", GetParam())));
    EXPECT_LT(told.after, std::chrono::seconds(5) + told.lateness) << told.error->what();
  }
}

}  // namespace
}  // namespace anello::group
