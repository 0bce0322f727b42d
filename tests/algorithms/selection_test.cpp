#include "ring/algorithms/selection.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <anello/error.hpp>

#include <algorithm>
#include <limits>
#include <set>

#include "ring/algorithms/selection_table.hpp"
#include "tests/plan/cases.hpp"

namespace anello::algorithms {
namespace {

constexpr std::uint64_t kSizes[] = {0,
                                    1,
                                    4,
                                    kKiB,
                                    16 * kKiB,
                                    64 * kKiB,
                                    256 * kKiB,
                                    kMiB,
                                    4 * kMiB,
                                    256 * kMiB,
                                    std::numeric_limits<std::uint64_t>::max() - 7};

Choice choice(int world, bool oversubscribed, std::uint64_t bytes) {
  return choose({.world = world, .oversubscribed = oversubscribed, .bytes = bytes, .elem_bytes = 4});
}

TEST(Choose, HasAnAnswerAndAReasonForEveryWorldAndSize) {
  for (const int world : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 100, 16384})
    for (const bool share : {false, true})
      for (const std::uint64_t bytes : kSizes)
        for (const unsigned more : {0U, 1U, 2U, 3U}) {
          const bool rank_order = more & 1, memory = more & 2;
          const Choice made = choose(
              {.world = world, .oversubscribed = share, .memory = memory, .bytes = bytes, .rank_order = rank_order});
          EXPECT_NE(made.algorithm, Algorithm::automatic);
          EXPECT_FALSE(made.reason.empty());
          if (rank_order && world > 1) {
            EXPECT_TRUE(reproducible(made.algorithm)) << world << " " << bytes;
          }
        }
}

TEST(Choose, FollowsTheFigures) {
  EXPECT_EQ(choice(2, false, 4).algorithm, Algorithm::one_shot);
  EXPECT_EQ(choice(2, false, 256 * kKiB).algorithm, Algorithm::one_shot);
  EXPECT_EQ(choice(2, false, 256 * kKiB + 4).algorithm, Algorithm::ring);
  EXPECT_EQ(choice(4, true, 8 * kKiB).algorithm, Algorithm::star);
  EXPECT_EQ(choice(4, true, 64 * kKiB).algorithm, Algorithm::tree);
  EXPECT_EQ(choice(8, true, kMiB).algorithm, Algorithm::halving);
  EXPECT_EQ(choice(16, true, kMiB).algorithm, Algorithm::tree);
  EXPECT_EQ(choice(6, true, kMiB).algorithm, Algorithm::ring);
  EXPECT_EQ(choice(4, true, 4 * kMiB).algorithm, Algorithm::ring);
  EXPECT_EQ(choice(4, false, kKiB).algorithm, Algorithm::one_shot);
  EXPECT_EQ(choice(64, false, kKiB).algorithm, Algorithm::recursive_doubling);
}

// With many ranks, messages must not become tiny: the ring sends as many messages as there are ranks.
TEST(Choose, LargeWorldsKeepMessagesWorthwhile) {
  EXPECT_EQ(choice(1024, false, 4 * kMiB).algorithm, Algorithm::halving);
  EXPECT_EQ(choice(1000, false, 4 * kMiB).algorithm, Algorithm::ring);
  EXPECT_EQ(choice(64, false, 64 * kMiB).algorithm, Algorithm::ring);
  EXPECT_EQ(choice(64, true, kKiB).algorithm, Algorithm::tree) << "a star's root would be the bottleneck";
  Facts facts{.world = 64, .bytes = 64 * kMiB, .elem_bytes = 4, .slab_bytes = 4 * kMiB};
  EXPECT_EQ(slab_elems(facts), kMiB);
  facts.hosts = 64;
  EXPECT_EQ(slab_elems(facts), 4 * kMiB) << "chunks of 256 KiB";
}

TEST(Choose, MemoryIsNoNetwork) {
  Facts facts{.world = 2, .memory = true, .bytes = 2 * kKiB, .elem_bytes = 4};
  EXPECT_EQ(choose(facts).algorithm, Algorithm::one_shot);
  facts.bytes += 4;
  EXPECT_EQ(choose(facts).algorithm, Algorithm::two_shot);
  facts = {.world = 2, .oversubscribed = true, .memory = true, .bytes = 64 * kKiB, .elem_bytes = 4};
  EXPECT_EQ(choose(facts).algorithm, Algorithm::one_shot);
  facts.world = 4;
  EXPECT_EQ(choose(facts).algorithm, Algorithm::star);
  facts.bytes = 2 * kKiB;
  EXPECT_EQ(choose(facts).algorithm, Algorithm::one_shot);
  facts.world = 3;
  facts.bytes = 4 * kKiB;
  EXPECT_EQ(choose(facts).algorithm, Algorithm::one_shot);
  facts.bytes += 4;
  EXPECT_EQ(choose(facts).algorithm, Algorithm::star);
  facts.world = 4;
  facts.bytes = 64 * kMiB;
  EXPECT_EQ(choose(facts).algorithm, Algorithm::ring);
  facts.world = 8;
  EXPECT_EQ(choose(facts).algorithm, Algorithm::ring);
}

TEST(Choose, BoundNeighboursExchangeMost) {
  Facts facts{.world = 4, .oversubscribed = true, .bound = true, .memory = true, .bytes = 8 * kKiB, .elem_bytes = 4};
  EXPECT_EQ(choose(facts).algorithm, Algorithm::recursive_doubling);
  facts.bytes = kMiB;
  EXPECT_EQ(choose(facts).algorithm, Algorithm::halving);
  facts.world = 3;
  EXPECT_EQ(choose(facts).algorithm, Algorithm::tree);
  facts.world = 8;
  EXPECT_EQ(choose(facts).algorithm, Algorithm::ring);
  facts.bytes = 256 * kKiB;
  EXPECT_EQ(choose(facts).algorithm, Algorithm::tree);
  facts.bytes = kKiB;
  EXPECT_EQ(choose(facts).algorithm, Algorithm::star);
  facts = {.world = 4, .oversubscribed = true, .bound = true, .memory = true, .bytes = kMiB, .rank_order = true};
  EXPECT_EQ(choose(facts).algorithm, Algorithm::two_shot) << "in rank order";
}

TEST(Choose, SlabsSuitWhatTheBytesGoThrough) {
  Facts facts{.world = 2, .bytes = 64 * kMiB, .elem_bytes = 4};
  EXPECT_EQ(slab_elems(facts), 128 * kKiB);
  facts.world = 100;
  EXPECT_EQ(slab_elems(facts), kMiB);
  facts.memory = true;
  facts.world = 2;
  EXPECT_EQ(slab_elems(facts), 64 * kKiB);
  facts.world = 4;
  EXPECT_EQ(slab_elems(facts), 128 * kKiB);
  facts.world = 8;
  EXPECT_EQ(slab_elems(facts), 256 * kKiB);
}

TEST(Choose, TakesTwoLevelsWhereHostsHaveSeveralRanks) {
  const auto choice = [](int hosts, int world, std::uint64_t bytes, bool rank_order = false) {
    return choose({.world = world, .hosts = hosts, .bytes = bytes, .elem_bytes = 4, .rank_order = rank_order});
  };
  EXPECT_EQ(name(choice(2, 16, kKiB).algorithm), "leaders+one_shot");
  EXPECT_EQ(name(choice(128, 1024, kKiB).algorithm), "leaders+recursive_doubling");
  EXPECT_EQ(name(choice(2, 3, 64 * kMiB).algorithm), "shares+one_shot");
  EXPECT_EQ(name(choice(3, 6, 64 * kKiB).algorithm), "shares+two_shot");
  EXPECT_EQ(name(choice(128, 1024, kMiB).algorithm), "shares+grid");
  EXPECT_EQ(levels_of(choice(4, 4, kMiB).algorithm), Levels::one) << "one rank on each host";
  EXPECT_EQ(levels_of(choice(1, 8, kMiB).algorithm), Levels::one) << "one host";
  for (const std::uint64_t bytes : kSizes)
    EXPECT_TRUE(reproducible(choice(4, 16, bytes, true).algorithm)) << "rank order, " << bytes;
}

TEST(ChooseOfCollectives, FollowsTheSimulator) {
  const auto taken = [](Kind kind, int hosts, int world, std::uint64_t bytes, bool rank_order = false) {
    return name(choose(kind, {.world = world, .hosts = hosts, .bytes = bytes, .rank_order = rank_order}).algorithm);
  };
  EXPECT_EQ(taken(Kind::allgather, 1, 8, 4 * kKiB), "grid");
  EXPECT_EQ(taken(Kind::allgather, 1, 8, 16 * kMiB), "ring");
  EXPECT_EQ(taken(Kind::allgather, 16, 16, kMiB), "grid");
  EXPECT_EQ(taken(Kind::allgather, 16, 16, 16 * kMiB), "ring");
  EXPECT_EQ(taken(Kind::allgather, 2, 16, 4 * kKiB), "shares+two_shot");
  EXPECT_EQ(taken(Kind::allgather, 16, 128, 4 * kKiB), "grid");
  EXPECT_EQ(taken(Kind::allgather, 4, 16, 64 * kKiB), "shares+two_shot");
  EXPECT_EQ(taken(Kind::allgather, 4, 16, 16 * kMiB), "shares+ring");
  EXPECT_EQ(taken(Kind::reduce_scatter, 4, 16, 16 * kMiB), "shares+ring");
  EXPECT_EQ(taken(Kind::reduce_scatter, 16, 128, 2 * kMiB), "shares+two_shot");
  EXPECT_EQ(taken(Kind::reduce_scatter, 16, 128, 4 * kMiB), "ring");
  EXPECT_EQ(taken(Kind::reduce_scatter, 16, 128, 64 * kMiB), "ring");
  EXPECT_EQ(taken(Kind::reduce_scatter, 4, 16, 16 * kMiB, true), "two_shot");
  for (const Kind kind : {Kind::broadcast, Kind::reduce}) {
    EXPECT_EQ(taken(kind, 4, 16, 4 * kKiB), "tree");
    EXPECT_EQ(taken(kind, 4, 16, kMiB), "ring");
    EXPECT_EQ(taken(kind, 64, 64, 256 * kKiB), "halving");
    EXPECT_EQ(taken(kind, 64, 64, 16 * kMiB), "ring");
  }
  EXPECT_EQ(taken(Kind::reduce, 4, 16, kKiB, true), "star");
  EXPECT_EQ(taken(Kind::reduce, 4, 16, kMiB, true), "chain");
  EXPECT_EQ(taken(Kind::alltoall, 4, 16, kMiB), "auto");
  EXPECT_EQ(taken(Kind::barrier, 1, 2, 0), "one_shot");
  EXPECT_EQ(taken(Kind::barrier, 64, 64, kMiB), "recursive_doubling");
  EXPECT_EQ(taken(Kind::barrier, 64, 64, 0, true), "recursive_doubling") << "its value does not matter";
  EXPECT_EQ(taken(Kind::barrier, 4, 16, 0), name(choose({.world = 16, .hosts = 4, .bytes = 1}).algorithm));
}

// The hosts are containers of one machine, with one rank or several ranks in each.
TEST(Choose, PassesRoundHostsThatShareCores) {
  const auto taken = [](int hosts, int ranks, std::uint64_t bytes, bool rank_order = false) {
    return std::string(name(choose({.world = hosts * ranks,
                                    .hosts_share_cores = true,
                                    .hosts = hosts,
                                    .bytes = bytes,
                                    .elem_bytes = 4,
                                    .rank_order = rank_order})
                                .algorithm));
  };
  EXPECT_EQ(taken(3, 2, 6 * kKiB), "leaders+tree");
  EXPECT_EQ(taken(3, 2, 8 * kKiB), "leaders+ring");
  EXPECT_EQ(taken(3, 2, 4 * kMiB), "shares+ring");
  EXPECT_EQ(taken(4, 1, 4 * kKiB), "tree");
  EXPECT_EQ(taken(4, 1, 64 * kKiB), "ring");
  EXPECT_EQ(taken(2, 2, 64 * kKiB), "shares+one_shot") << "each has one neighbour";
  EXPECT_EQ(taken(17, 2, 64 * kKiB), "shares+grid") << "a long ring";
  EXPECT_EQ(taken(3, 2, 64 * kKiB, true), "two_shot") << "in rank order as elsewhere";
  Facts parts{.world = 4, .hosts_share_cores = true, .hosts = 4, .bytes = 64 * kKiB};
  EXPECT_EQ(name(choose(Kind::allgather, parts).algorithm), "ring");
  parts.hosts_share_cores = false;
  EXPECT_EQ(name(choose(Kind::allgather, parts).algorithm), "grid");
}

TEST(StageSlab, IsForRanksThatShareCoresAndForNoNamedAlgorithm) {
  const Facts facts{.world = 3, .oversubscribed = true, .memory = true, .bytes = 64 * kKiB};
  const auto with = [&](auto change) {
    Facts changed = facts;
    change(changed);
    return stage_slab(Kind::allreduce, changed);
  };
  EXPECT_EQ(stage_slab(Kind::allreduce, facts), 128 * kKiB);
  EXPECT_EQ(stage_slab(Kind::reduce, facts), 0u);
  EXPECT_EQ(with([](Facts& its) { its.world = 8; }), 512 * kKiB);
  EXPECT_EQ(with([](Facts& its) { its.world = 9; }), 0u);
  EXPECT_EQ(with([](Facts& its) { its.world = 2; }), 0u);
  EXPECT_EQ(with([](Facts& its) { its.bytes--; }), 0u);
  EXPECT_EQ(with([](Facts& its) { its.memory = false; }), 0u);
  EXPECT_EQ(with([](Facts& its) { its.oversubscribed = false; }), 0u);
  EXPECT_EQ(with([](Facts& its) { its.forced = Algorithm::ring; }), 0u);
  TableRow row{.world = 3, .memory = true, .oversubscribed = true, .max_bytes = kMiB, .algorithm = Algorithm::ring};
  EXPECT_EQ(stage_slab(Kind::allreduce, facts, std::span(&row, 1)), 0u);
  row.algorithm = Algorithm::automatic;
  EXPECT_EQ(stage_slab(Kind::allreduce, facts, std::span(&row, 1)), 128 * kKiB);
}

// One rank has all data. If it sent them to 15 hosts directly, 90 MiB would leave its host; 6 MiB are enough.
TEST(ChooseOfCollectives, GoesByTheLargestPart) {
  Facts facts{.world = 128, .hosts = 16, .bytes = 6 * kMiB};
  EXPECT_EQ(name(choose(Kind::allgather, facts).algorithm), "shares+two_shot");
  facts.largest_part_bytes = 6 * kMiB;
  EXPECT_EQ(name(choose(Kind::allgather, facts).algorithm), "shares+ring");
  EXPECT_EQ(name(choose(Kind::reduce_scatter, facts).algorithm), "ring");
  facts.world = facts.hosts = 128;
  EXPECT_EQ(name(choose(Kind::allgather, facts).algorithm), "ring");
}

TEST(ChooseOfCollectives, MakesNoGridOfLongLines) {
  for (const int ranks : {61, 122, 1009})
    for (const int hosts : {1, ranks})
      EXPECT_EQ(name(choose(Kind::allgather, {.world = ranks, .hosts = hosts, .bytes = kKiB}).algorithm), "ring");
  EXPECT_EQ(name(choose(Kind::allgather, {.world = 62, .bytes = kKiB}).algorithm), "grid") << "31 is not long";
  const Facts many{.world = 61 * 8, .hosts = 61, .bytes = kKiB};
  EXPECT_EQ(name(choose(Kind::allgather, many).algorithm), "shares+two_shot");
}

TEST(ChooseOfCollectives, PassesSmallPartsThroughManyHostsOnce) {
  const Facts uneven{.world = 100, .hosts = 16, .uneven = true, .bytes = kMiB};
  for (const Kind kind : {Kind::allgather, Kind::reduce_scatter})
    EXPECT_EQ(name(choose(kind, uneven).algorithm), "shares+ring") << name(kind) << " of unequal hosts";
  for (const Kind kind : {Kind::allgather, Kind::reduce_scatter})
    EXPECT_EQ(name(choose(kind, {.world = 129 * 8, .hosts = 129, .bytes = kMiB}).algorithm), "shares+ring")
        << name(kind);
}

TEST(ChooseOfCollectives, TakesOneOfThoseThatAreTried) {
  for (const Kind kind :
       {Kind::allgather, Kind::reduce_scatter, Kind::broadcast, Kind::reduce, Kind::gather, Kind::barrier})
    for (const int hosts : {1, 2, 3, 16, 300})
      for (const int ranks : {1, 8})
        for (const std::uint64_t bytes : kSizes)
          for (const bool rank_order : {false, true}) {
            const Facts facts{.world = hosts * ranks, .hosts = hosts, .bytes = bytes, .rank_order = rank_order};
            const Choice made = choose(kind, facts);
            EXPECT_THAT(algorithms_for(kind, facts), testing::Contains(made.algorithm)) << name(kind);
            EXPECT_FALSE(made.reason.empty());
          }
}

// If an earlier rule hid a rule, nobody would measure the hidden rule's bound again.
TEST(SelectionTable, HasNoRuleThatIsNeverTaken) {
  std::set<const Rule*> taken;
  for (const Kind kind : {Kind::allreduce, Kind::allgather, Kind::reduce_scatter, Kind::broadcast, Kind::reduce})
    for (const int hosts : {1, 2, 3, 8, 16, 64, 300})
      for (const int ranks : {1, 2, 3, 4, 5, 8, 20, 40})
        for (std::uint64_t bytes = 1; bytes < 1ULL << 36; bytes *= 2)
          for (unsigned bits = 0; bits < 64; bits++) {
            const Facts facts{.world = hosts * ranks,
                              .oversubscribed = (bits & 1) != 0,
                              .bound = (bits & 33) == 33,
                              .hosts_share_cores = (bits & 2) != 0,
                              .memory = (bits & 4) != 0,
                              .hosts = hosts,
                              .bytes = bytes,
                              .rank_order = (bits & 8) != 0,
                              .narrow = (bits & 16) != 0};
            if (facts.world == 1) continue;
            taken.insert(&*std::ranges::find_if(rules(), [&](const Rule& each) { return fits(each, kind, facts); }));
          }
  for (const Rule& rule : rules()) {
    EXPECT_TRUE(taken.contains(&rule)) << "rule " << &rule - rules().data() << ": " << rule.reason;
    EXPECT_FALSE(rule.reason.empty() || rule.measured.empty()) << "rule " << &rule - rules().data();
  }
}

// Larger buffers have more and larger slabs. With few hosts, buffers have several slabs from 64 KiB on.
TEST(Choose, SlabsOfTwoLevelsOverlap) {
  Facts facts{.world = 16, .hosts = 2, .elem_bytes = 4};
  const auto slab_bytes = [&](std::uint64_t bytes) {
    facts.bytes = bytes;
    return choose(facts).slab_elems * 4;
  };
  EXPECT_EQ(slab_bytes(32 * kKiB), 0U);
  EXPECT_EQ(slab_bytes(64 * kKiB), 32 * kKiB);
  EXPECT_EQ(slab_bytes(256 * kKiB), 64 * kKiB);
  EXPECT_EQ(slab_bytes(4 * kMiB), 256 * kKiB);
  EXPECT_EQ(slab_bytes(64 * kMiB), 512 * kKiB);
  facts.oversubscribed = true;
  EXPECT_EQ(slab_bytes(256 * kKiB), 0U);
  facts = {.world = 64, .hosts = 8, .elem_bytes = 4};
  EXPECT_EQ(slab_bytes(64 * kKiB), 0U);
  facts = {.world = 1024, .hosts = 128, .elem_bytes = 4};
  EXPECT_EQ(slab_bytes(4 * kMiB), 512 * kKiB);
  facts.forced = Algorithm::ring;
  EXPECT_EQ(slab_bytes(4 * kMiB), 0U) << "chunks of 256 KiB";
}

TEST(Choose, OneRankCopies) {
  const Choice made = choose({.world = 1, .bytes = 64 * kMiB, .elem_bytes = 4, .slab_bytes = 4 * kMiB});
  EXPECT_EQ(made.slab_elems, 0U);
  EXPECT_EQ(plan_allreduce(made.algorithm, {0, 1, 100}, made.slab_elems).steps.size(), 1U);
}

TEST(Choose, TakesWhatIsForced) {
  for (const Algorithm algorithm : all_algorithms()) {
    const Choice made = choose({.world = 4, .bytes = 4, .elem_bytes = 4, .forced = algorithm});
    EXPECT_EQ(made.algorithm, algorithm);
    EXPECT_EQ(made.reason, "forced");
  }
}

TEST(Choose, RefusesToForceWhatCannotKeepRankOrder) {
  for (const Algorithm algorithm : all_algorithms()) {
    const Facts facts{.world = 4, .bytes = 4, .elem_bytes = 4, .forced = algorithm, .rank_order = true};
    if (reproducible(algorithm)) {
      EXPECT_EQ(choose(facts).algorithm, algorithm);
      continue;
    }
    try {
      choose(facts);
      ADD_FAILURE() << name(algorithm);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::configuration);
      EXPECT_THAT(error.message(), testing::HasSubstr(name(algorithm)));
      for (const Algorithm able : all_algorithms())
        if (reproducible(able)) {
          EXPECT_THAT(error.message(), testing::HasSubstr(name(able)));
        }
    }
  }
}

TEST(Choose, SlabsAreEqualAndNearWhatIsWanted) {
  Facts facts{.world = 2, .bytes = 9 * kMiB, .elem_bytes = 4, .slab_bytes = 4 * kMiB};
  EXPECT_EQ(choose(facts).slab_elems, 3 * kMiB / 4);
  facts.bytes = 4 * kMiB;
  EXPECT_EQ(choose(facts).slab_elems, 0U);
  facts.slab_bytes = 0;
  facts.bytes = 256 * kMiB;
  EXPECT_EQ(choose(facts).slab_elems, 0U);
  facts = {.world = 2, .bytes = 4 * kMiB + 8, .elem_bytes = 8, .slab_bytes = 4 * kMiB};
  EXPECT_EQ(choose(facts).slab_elems, 2 * kMiB / 8 + 1) << "the last element must not make a slab of its own";
}

TEST(Choose, SlabsAreNoLargerThanASignatureCanSay) {
  const Facts facts{.world = 2, .bytes = std::uint64_t(1) << 36, .elem_bytes = 1, .slab_bytes = std::int64_t(1) << 34};
  EXPECT_EQ(slab_elems(facts), UINT32_MAX);
}

TEST(Choose, SlabsGrowWithTheWorldSoThatMessagesDoNotShrink) {
  const Facts facts{.world = 1024, .bytes = 256 * kMiB, .elem_bytes = 4, .slab_bytes = 4 * kMiB};
  EXPECT_EQ(slab_elems(facts), 16 * kMiB / 4);
}

TEST(Algorithms, HaveNamesThatParse) {
  for (const Algorithm algorithm : all_algorithms()) {
    Algorithm parsed = Algorithm::automatic;
    EXPECT_TRUE(parse(name(algorithm), parsed));
    EXPECT_EQ(parsed, algorithm);
  }
  Algorithm parsed = Algorithm::ring;
  EXPECT_TRUE(parse("auto", parsed));
  EXPECT_EQ(parsed, Algorithm::automatic);
  for (const char* wrong : {"", "Ring", "ring ", "rin", "?"}) EXPECT_FALSE(parse(wrong, parsed)) << wrong;
  EXPECT_EQ(name(Algorithm(200)), "?");
  EXPECT_THAT(algorithm_names(), testing::StartsWith("auto, ring, star, "));
  for (const Algorithm algorithm : all_algorithms()) {
    EXPECT_THAT(algorithm_names(), testing::HasSubstr(name(algorithm)));
    EXPECT_THAT(std::string(kAlgorithmChoices) + "|", testing::HasSubstr("|" + std::string(name(algorithm)) + "|"));
  }
}

TEST(Shape, IsAKey) {
  EXPECT_EQ((Shape{0, 2, 3}), (Shape{0, 2, 3}));
  EXPECT_NE((Shape{0, 2, 3}), (Shape{0, 2, 3, 1}));
  EXPECT_LT((Shape{0, 2, 3}), (Shape{0, 2, 4}));
}

}  // namespace
}  // namespace anello::algorithms
