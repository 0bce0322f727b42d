// The texts with which an agenda describes an operation that waits.
#include "tests/agenda/world_of_agendas.hpp"

namespace anello::agenda {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;

TEST(Agenda, SaysWhatAMissingRankWaitsInInstead) {
  WorldOfAgendas world(4);
  world[0].submit("w", {.verb = Verb::broadcast, .root = 0, .arrays = {{DType::f32, {1}}}}, {});
  world[1].submit("a", allreduce_of({1}), {});
  world.settle();
  EXPECT_EQ(world[0].waits_for("broadcast 'w'"),
            "broadcast 'w' waits for rank 1, rank 2 or one that reports to it; rank 1 called allreduce 'a' instead; "
            "a rank that has no more data must call join()");
  world[1].submit("w", allreduce_of({1}), {});
  world.settle();
  EXPECT_THAT(world[0].waits_for("broadcast 'w'"), EndsWith("; rank 1 called allreduce 'w' instead"));
}

// Keras numbers all layers that a process ever makes.
TEST(Agenda, SaysWhatToDoIfNamesDifferOnlyInNumbers) {
  const auto report_of = [](const std::string& mine, const std::string& theirs) {
    WorldOfAgendas world(2);
    world[0].submit(mine, allreduce_of({1}), {});
    world[1].submit(theirs, allreduce_of({1}), {});
    world.settle();
    return world[0].waits_for("allreduce '" + mine + "'");
  };
  EXPECT_THAT(report_of("grad/dense_MatMul_1_0", "grad/dense_12_MatMul_1_0"),
              AllOf(HasSubstr("rank 1 called allreduce 'grad/dense_12_MatMul_1_0' instead"),
                    HasSubstr("clear_session()"), HasSubstr("use_generic_names=True")));
  EXPECT_THAT(report_of("layers.0.weight", "layers.1.weight"), EndsWith("must call join()"));
  EXPECT_THAT(report_of("dense_1_kernel", "dense_1_bias"), EndsWith("must call join()"));
}

TEST(Agenda, SaysWhoHasNotJoined) {
  WorldOfAgendas world(4);
  world[0].join();
  EXPECT_EQ(world[0].waits_for("join"),
            "join waits for rank 1, rank 2 or one that reports to it; a rank that has no more data must call join()");
  world[2].join();
  EXPECT_EQ(world[2].waits_for("join"), "join waits for rank 3; a rank that has no more data must call join()");
  world[3].join();
  world.settle();
  EXPECT_EQ(world[0].waits_for("join"), "join waits for rank 1; a rank that has no more data must call join()");
  EXPECT_EQ(world[2].waits_for("join"), "join waits for the answer of rank 0");
}

}  // namespace
}  // namespace anello::agenda
