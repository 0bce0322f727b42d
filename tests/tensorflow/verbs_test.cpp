// Each verb, between ranks.
#include "tests/tensorflow/with_ops.hpp"

namespace anello::tensorflow {
namespace {

using testing::Each;
using testing::ElementsAre;

constexpr int kDouble = fake::kTypeOf<double>, kByte = fake::kTypeOf<uint8_t>;

class Verbs : public WithOps, public testing::WithParamInterface<int> {
 protected:
  int ranks() const { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(OnRanks, Verbs, testing::Values(1, 2, 3));

TEST_P(Verbs, AllreduceSumsAListOfDifferentTypes) {
  on_ranks(ranks(), [](const Rank& its) {
    const Node node = its.node("AnelloAllreduce", {kFloat, kInt, kDouble, kByte});
    const auto mine = float(its.rank + 1);
    const auto sums = outputs_of(run(node, {value<float>({2, 2}, {mine, 0, 1, 2}), value<int32_t>({1}, {its.rank}),
                                            value<double>({}, {0.5}), value<uint8_t>({0}, {})}));
    const auto size = float(its.size);
    EXPECT_THAT(elements<float>(sums[0]), ElementsAre(size * (size + 1) / 2, 0, size, 2 * size));
    EXPECT_THAT(sums[0].dims, ElementsAre(2, 2));
    EXPECT_THAT(elements<int32_t>(sums[1]), ElementsAre(its.size * (its.size - 1) / 2));
    EXPECT_THAT(elements<double>(sums[2]), ElementsAre(its.size / 2.0));
    EXPECT_THAT(sums[2].dims, ElementsAre());
    EXPECT_THAT(sums[3].dims, ElementsAre(0));
  });
}

TEST_P(Verbs, AllreduceHasHorovodsReductions) {
  on_ranks(ranks(), [](const Rank& its) {
    const auto reduced = [&](int32_t op, float mine) {
      const Node node = its.node("AnelloAllreduce", {kFloat}, {{"reduce_op", op}}, std::to_string(op));
      return elements<float>(outputs_of(run(node, {value<float>({1}, {mine})}))[0])[0];
    };
    const auto mine = float(its.rank + 1), size = float(its.size);
    EXPECT_EQ(reduced(0, mine), (size + 1) / 2);
    EXPECT_EQ(reduced(1, mine), size * (size + 1) / 2);
    EXPECT_EQ(reduced(3, mine), 1);
    EXPECT_EQ(reduced(4, mine), size);
    EXPECT_EQ(reduced(5, 2), float(1 << its.size));
  });
}

TEST_P(Verbs, AllreduceScalesBeforeAndAfter) {
  on_ranks(ranks(), [](const Rank& its) {
    const Node node = its.node("AnelloAllreduce", {kFloat, kInt}, {{"prescale", "0.5"}, {"postscale", "4.0"}});
    const auto sums = outputs_of(run(node, {value<float>({1}, {3}), value<int32_t>({1}, {4})}));
    EXPECT_THAT(elements<float>(sums[0]), ElementsAre(6.0f * float(its.size)));
    EXPECT_THAT(elements<int32_t>(sums[1]), ElementsAre(8 * its.size));
  });
}

TEST_P(Verbs, AllreduceScalesByFactorsOf64Bits) {
  on_ranks(ranks(), [](const Rank& its) {
    const Node node = its.node("AnelloAllreduce", {kDouble}, {{"prescale", "1e-60"}, {"postscale", "16777217e60"}});
    const auto sums = outputs_of(run(node, {value<double>({1}, {1})}));
    EXPECT_NEAR(elements<double>(sums[0])[0] / its.size, 16777217, 1e-6);
  });
}

// 1 + 2^-12 is 1 in f16; a single rank sends nothing.
TEST_P(Verbs, AllreduceRoundsWhatTravels) {
  on_ranks(ranks(), [](const Rank& its) {
    for (const char* wire : {"f16", "bf16"}) {
      const Node node = its.node("AnelloAllreduce", {kFloat}, {{"wire", wire}}, wire);
      const auto sums = outputs_of(run(node, {value<float>({1}, {1.0f + 1.0f / 4096})}));
      EXPECT_EQ(elements<float>(sums[0])[0] == float(its.size), its.size > 1) << elements<float>(sums[0])[0];
    }
  });
}

TEST_P(Verbs, AllgatherTakesDifferentNumbersOfRows) {
  on_ranks(ranks(), [](const Rank& its) {
    const Node node = its.node("AnelloAllgather", {kFloat, kInt, kLong});
    const auto mine = std::size_t(its.rank);
    const auto all = outputs_of(run(node, {value<float>({its.rank, 2}, std::vector<float>(2 * mine, float(its.rank))),
                                           value<int32_t>({1}, {its.rank})}));
    std::vector<float> rows;
    std::vector<int32_t> ranks;
    std::vector<int64_t> counts;
    for (int rank = 0; rank < its.size; rank++) {
      rows.insert(rows.end(), 2 * std::size_t(rank), float(rank));
      ranks.push_back(rank);
      counts.push_back(rank);
    }
    counts.insert(counts.end(), std::size_t(its.size), 1);
    EXPECT_EQ(elements<float>(all[0]), rows);
    EXPECT_THAT(all[0].dims, ElementsAre(its.size * (its.size - 1) / 2, 2));
    EXPECT_EQ(elements<int32_t>(all[1]), ranks);
    EXPECT_EQ(elements<int64_t>(all[2]), counts);
    EXPECT_THAT(all[2].dims, ElementsAre(2, its.size));
  });
}

TEST_P(Verbs, BroadcastHasAnyRoot) {
  on_ranks(ranks(), [](const Rank& its) {
    for (int root = 0; root < its.size; root++) {
      const Node node = its.node("AnelloBroadcast", {kFloat, kInt}, {{"root", root}}, std::to_string(root));
      const Value held = value<float>({3}, {float(its.rank), 1, 2});
      const auto received = outputs_of(run(node, {held, value<int32_t>({}, {10 * its.rank})}));
      EXPECT_THAT(elements<float>(received[0]), ElementsAre(float(root), 1, 2));
      EXPECT_THAT(elements<int32_t>(received[1]), ElementsAre(10 * root));
      EXPECT_THAT(elements<float>(held), ElementsAre(float(its.rank), 1, 2));
    }
  });
}

TEST_P(Verbs, AlltoallSendsEqualPartsOrSplits) {
  on_ranks(ranks(), [](const Rank& its) {
    const auto size = std::size_t(its.size);
    const Node equal = its.node("AnelloAlltoall", {kFloat, kInt}, {}, "equal");
    auto got = outputs_of(run(
        equal, {value<float>({its.size, 2}, std::vector<float>(2 * size, float(its.rank))), value<int32_t>({0}, {})}));
    EXPECT_THAT(elements<int32_t>(got[1]), Each(1));
    EXPECT_EQ(elements<float>(got[0]).back(), float(its.size - 1));
    // Rank r gets r rows from each rank.
    const Node node = its.node("AnelloAlltoall", {kFloat, kInt}, {}, "splits");
    std::vector<int32_t> splits(size);
    std::iota(splits.begin(), splits.end(), 0);
    const int rows = its.size * (its.size - 1) / 2;
    got = outputs_of(run(node, {value<float>({rows}, std::vector<float>(std::size_t(rows), float(its.rank))),
                                value<int32_t>({its.size}, splits)}));
    EXPECT_THAT(got[0].dims, ElementsAre(its.size * its.rank));
    EXPECT_THAT(elements<int32_t>(got[1]), Each(its.rank));
    EXPECT_THAT(got[1].dims, ElementsAre(its.size));
  });
}

TEST_P(Verbs, ReducescatterGivesTheFirstRanksOneMoreRow) {
  on_ranks(ranks(), [](const Rank& its) {
    const Node node = its.node("AnelloReducescatter", {kFloat, kInt}, {{"postscale", "2"}});
    std::vector<float> rows(std::size_t(its.size) + 1);
    std::iota(rows.begin(), rows.end(), 0.0f);
    const auto mine = outputs_of(run(node, {value<float>({its.size + 1}, rows), value<int32_t>({0, 4}, {})}));
    const auto first = float(its.rank == 0 ? 0 : its.rank + 1), factor = 2.0f * float(its.size);
    EXPECT_EQ(elements<float>(mine[0]).size(), its.rank == 0 ? 2u : 1u);
    EXPECT_EQ(elements<float>(mine[0])[0], factor * first);
    EXPECT_THAT(mine[1].dims, ElementsAre(0, 4));
  });
}

TEST_P(Verbs, JoinTakesPartUntilAllHaveJoined) {
  on_ranks(ranks(), [](const Rank& its) {
    const Node node = its.node("AnelloAllreduce", {kFloat}, {{"reduce_op", 0}});
    const Node join("AnelloJoin", "join", {{"process_set", its.rank}}, {kInt});
    if (its.rank == 0) {
      const auto mean = outputs_of(run(node, {value<float>({1}, {6})}));
      EXPECT_THAT(elements<float>(mean[0]), ElementsAre(6.0f / float(its.size)));
    }
    auto joined = join.run({});
    const auto last = outputs_of(result_of(joined));
    EXPECT_THAT(elements<int32_t>(last[0]), ElementsAre(0));
  });
}

TEST_P(Verbs, BarrierWaitsForAll) {
  std::atomic<int> came{0};
  on_ranks(ranks(), [&](const Rank& its) {
    const Node barrier = its.node("AnelloBarrier", {});
    came++;
    auto passed = barrier.run({});
    EXPECT_THAT(outputs_of(result_of(passed)), ElementsAre());
    EXPECT_EQ(came, its.size);
  });
}

TEST_P(Verbs, OutputsOutliveTheWorld) {
  std::vector<Value> kept(static_cast<std::size_t>(ranks()));
  on_ranks(ranks(), [&](const Rank& its) {
    const Node node = its.node("AnelloAllgather", {kFloat, kLong});
    kept[std::size_t(its.rank)] = outputs_of(run(node, {value<float>({1}, {1})}))[0];
  });
  for (const Value& each : kept) EXPECT_THAT(elements<float>(each), Each(1));
}

// The root of a broadcast is a rank of the world, even in a set of some ranks.
TEST_F(WithOps, ASetOfSomeRanksIsAWorldOfItsOwn) {
  run_world(3, [](anello::World& world) {
    if (world.rank() == 1) return;
    anello_group group{world.group({0, 2})};
    Rank its{world.rank(), group.group.size(), nullptr, world};
    ASSERT_EQ(anello_agenda_create(&group, &its.agenda), ANELLO_OK);
    add_set(its, {0, 2});
    const Node broadcast = its.node("AnelloBroadcast", {kFloat}, {{"root", 2}}),
               outside = its.node("AnelloBroadcast", {kFloat}, {{"root", 1}}), rank = its.node("AnelloRank", {kInt}),
               gather = its.node("AnelloAllgather", {kFloat, kLong}), barrier = its.node("AnelloBarrier", {});
    const auto mine = [&] { return value<float>({1}, {float(its.rank)}); };
    EXPECT_THAT(elements<float>(outputs_of(run(broadcast, {mine()}))[0]), ElementsAre(2));
    EXPECT_EQ(run(outside, {mine()}).message, "the root, rank 1, is not one of the 2 ranks of the process set");
    EXPECT_THAT(elements<float>(outputs_of(run(gather, {mine()}))[0]), ElementsAre(0, 2));
    auto number = rank.run({});
    EXPECT_THAT(elements<int32_t>(outputs_of(number.get())[0]), ElementsAre(its.rank / 2));
    auto passed = barrier.run({});
    outputs_of(result_of(passed));
    anello_tensorflow_remove_process_set(its.rank);
    anello_agenda_free(its.agenda);
  });
}

TEST_F(WithOps, NumbersAreThoseOfTheWorldAndOfSets) {
  const auto number = [](const std::string& op, std::map<std::string, fake::Attribute> attributes = {}) {
    const Node node(op, op, std::move(attributes), {kInt});
    auto given = node.run({});
    const Result result = given.get();
    return result.code == 0 ? std::to_string(elements<int32_t>(result.outputs[0])[0]) : result.message;
  };
  EXPECT_EQ(number("AnelloLocalRank"), "Horovod has not been initialized; use hvd.init().");
  EXPECT_EQ(number("AnelloSize"), "Horovod has not been initialized; use hvd.init().");
  anello_tensorflow_begin_world(5, 8, 1, 4);
  const int some[] = {3, 5, 6}, others[] = {1, 2};
  anello_agenda* const not_used = reinterpret_cast<anello_agenda*>(8);
  anello_tensorflow_add_process_set(1, not_used, 3, some);
  anello_tensorflow_add_process_set(2, nullptr, 2, others);
  EXPECT_EQ(number("AnelloLocalRank"), "1");
  EXPECT_EQ(number("AnelloLocalSize"), "4");
  EXPECT_EQ(number("AnelloRank", {{"process_set", 1}}), "1");
  EXPECT_EQ(number("AnelloSize", {{"process_set", 1}}), "3");
  EXPECT_EQ(number("AnelloProcessSetIncluded", {{"process_set", 1}}), "1");
  EXPECT_EQ(number("AnelloRank", {{"process_set", 2}}), "-1");
  EXPECT_EQ(number("AnelloSize", {{"process_set", 2}}), "2");
  EXPECT_EQ(number("AnelloProcessSetIncluded", {{"process_set", 2}}), "0");
  EXPECT_EQ(number("AnelloSize"), kNotRegistered);
  anello_tensorflow_remove_process_set(2);
  EXPECT_EQ(number("AnelloSize", {{"process_set", 2}}), kNotRegistered);
  anello_tensorflow_end_world();
  EXPECT_EQ(number("AnelloSize", {{"process_set", 1}}), "Horovod has not been initialized; use hvd.init().");
}

}  // namespace
}  // namespace anello::tensorflow
