// Plans as they are printed. Each was read and found right by hand; a change here is a change of what travels.
#include <gtest/gtest.h>

#include "ring/algorithms/plans.hpp"

namespace anello {
namespace {

// Every send but the first follows what it passes on; what comes back follows what it overwrites.
TEST(PlanText, RingOfThree) {
  EXPECT_EQ(to_text(plan_allreduce(Algorithm::ring, {0, 3, 7})),
            R"(rank 0 of 3: 7 in, 7 out
0: send to 1 [0, 3) input@0
1: send to 1 [5, 7) output@5 after 4
2: send to 1 [3, 5) output@3 after 5
3: send to 1 [0, 3) output@0 after 6
4: reduce from 2 [5, 7) output@5 = input@5 + incoming
5: reduce from 2 [3, 5) output@3 = input@3 + incoming
6: copy from 2 [0, 3) output@0 after 0
7: copy from 2 [5, 7) output@5 after 1
)");
}

TEST(PlanText, RingWithFewerElementsThanRanks) {
  EXPECT_EQ(to_text(plan_allreduce(Algorithm::ring, {0, 4, 2})),
            R"(rank 0 of 4: 2 in, 2 out
0: send to 1 [0, 1) input@0
1: send to 1 [1, 2) output@1 after 3
2: send to 1 [0, 1) output@0 after 4
3: reduce from 3 [1, 2) output@1 = input@1 + incoming
4: copy from 3 [0, 1) output@0 after 0
)");
}

// Slabs do not wait for each other.
TEST(PlanText, StarInSlabs) {
  EXPECT_EQ(to_text(plan_allreduce(Algorithm::star, {0, 3, 7}, 4)),
            R"(rank 0 of 3: 7 in, 7 out
0: send to 1 [0, 4) output@0 after 6
1: send to 1 [4, 7) output@4 after 7
2: send to 2 [0, 4) output@0 after 6
3: send to 2 [4, 7) output@4 after 7
4: reduce from 1 [0, 4) output@0 = input@0 + incoming
5: reduce from 1 [4, 7) output@4 = input@4 + incoming
6: reduce from 2 [0, 4) output@0 = output@0 + incoming after 4
7: reduce from 2 [4, 7) output@4 = output@4 + incoming after 5
)");
}

TEST(PlanText, TwoShotFoldsInRankOrder) {
  EXPECT_EQ(to_text(plan_allreduce(Algorithm::two_shot, {1, 3, 7}, 4)),
            R"(rank 1 of 3: 7 in, 7 out, scratch 64
0: send to 2 [3, 4) input@3
1: send to 2 [2, 3) output@2 after 16
2: send to 2 [6, 7) input@6
3: send to 2 [5, 6) output@5 after 17
4: send to 0 [0, 2) input@0
5: send to 0 [2, 3) output@2 after 16
6: send to 0 [4, 5) input@4
7: send to 0 [5, 6) output@5 after 17
8: copy from 0 [2, 3) scratch@0
9: copy from 0 [0, 2) output@0 after 4
10: copy from 0 [5, 6) scratch@32
11: copy from 0 [4, 5) output@4 after 6
12: copy from 2 [2, 3) scratch@16
13: copy from 2 [3, 4) output@3 after 0
14: copy from 2 [5, 6) scratch@48
15: copy from 2 [6, 7) output@6 after 2
16: fold [2, 3) output@2 = scratch@0 + input@2 + scratch@16 after 8, 12
17: fold [5, 6) output@5 = scratch@32 + input@5 + scratch@48 after 10, 14
)");
}

TEST(PlanText, HalvingSpeaksForTheRankBeyond) {
  EXPECT_EQ(to_text(plan_allreduce(Algorithm::halving, {1, 5, 8})),
            R"(rank 1 of 5: 8 in, 8 out
0: send to 0 [0, 4) input@0
1: send to 0 [4, 8) output@4 after 6, 7
2: send to 3 [6, 8) output@6 after 4
3: send to 3 [4, 6) output@4 after 6
4: reduce from 0 [4, 8) output@4 = incoming + input@4
5: copy from 0 [0, 4) output@0 after 0
6: reduce from 3 [4, 6) output@4 = output@4 + incoming after 4
7: copy from 3 [6, 8) output@6 after 2
)");
}

TEST(PlanText, ChainPassesBothWays) {
  EXPECT_EQ(to_text(plan_allreduce(Algorithm::chain, {1, 3, 7})),
            R"(rank 1 of 3: 7 in, 7 out
0: send to 2 [0, 7) output@0 after 2
1: send to 0 [0, 7) output@0 after 3
2: reduce from 0 [0, 7) output@0 = incoming + input@0
3: copy from 2 [0, 7) output@0 after 0
)");
}

TEST(PlanText, ReduceScatterInSlabs) {
  EXPECT_EQ(to_text(plan_reduce_scatter({1, 3, 4}, 6)),
            R"(rank 1 of 3: 12 in, 4 out from 4, scratch 32
0: send to 2 [0, 2) input@0
1: send to 2 [8, 10) scratch@0 after 4
2: send to 2 [2, 4) input@2
3: send to 2 [10, 12) scratch@16 after 6
4: reduce from 0 [8, 10) scratch@0 = incoming + input@8
5: reduce from 0 [4, 6) output@0 = incoming + input@4
6: reduce from 0 [10, 12) scratch@16 = incoming + input@10
7: reduce from 0 [6, 8) output@2 = incoming + input@6
)");
}

TEST(PlanText, AllGatherCopiesItsOwnLast) {
  EXPECT_EQ(to_text(plan_allgather({1, 3, 7})),
            R"(rank 1 of 3: 7 in from 7, 21 out
0: send to 2 [7, 14) input@0
1: send to 2 [0, 7) output@0 after 2
2: copy from 0 [0, 7) output@0
3: copy from 0 [14, 21) output@14
4: fold [7, 14) output@7 = input@0 after 0
)");
}

TEST(PlanText, BroadcastFromTheRoot) {
  EXPECT_EQ(to_text(plan_broadcast({1, 4, 7, 1})),
            R"(rank 1 of 4: 7 in, 7 out
0: send to 3 [0, 7) input@0
1: send to 2 [0, 7) input@0
2: fold [0, 7) output@0 = input@0 after 0, 1
)");
}

TEST(PlanText, BroadcastPassedOn) {
  EXPECT_EQ(to_text(plan_broadcast({3, 4, 7, 1})),
            R"(rank 3 of 4: 0 in, 7 out
0: send to 0 [0, 7) output@0 after 1
1: copy from 1 [0, 7) output@0
)");
}

TEST(PlanText, BarrierIsOneElement) {
  EXPECT_EQ(to_text(plan_barrier({1, 2})),
            R"(rank 1 of 2: 1 in, 1 out
0: send to 0 [0, 1) input@0
1: copy from 0 [0, 1) output@0 after 0
)");
}

TEST(PlanText, OneRankCopies) {
  EXPECT_EQ(to_text(plan_allreduce(Algorithm::ring, {0, 1, 7}, 3)),
            R"(rank 0 of 1: 7 in, 7 out
0: fold [0, 7) output@0 = input@0
)");
}

}  // namespace
}  // namespace anello
