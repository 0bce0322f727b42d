// The agenda in fixed steps: its decisions, its messages, and the texts of its errors.
#include <anello/error.hpp>

#include "ring/base/text.hpp"
#include "tests/agenda/world_of_agendas.hpp"

namespace anello::agenda {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
    return e.message();
  }
  return "nothing";
}

std::vector<std::string> keys(const std::vector<Decision>& decisions) {
  std::vector<std::string> all;
  for (const Decision& decision : decisions) all.push_back(decision.key.empty() ? "join" : decision.key);
  return all;
}

TEST(Agenda, AnOperationStartsWhenAllRanksHaveIt) {
  WorldOfAgendas world(5);
  for (const int rank : {3, 0, 4, 1}) {
    world[rank].submit("x", allreduce_of({2, 3}), {});
    world.settle();
    EXPECT_TRUE(world.decisions(0).empty());
  }
  world[2].submit("x", allreduce_of({2, 3}), {});
  world.settle();
  for (int rank = 0; rank < 5; rank++) {
    ASSERT_THAT(keys(world.decisions(rank)), ElementsAre("allreduce 'x'"));
    EXPECT_EQ(world.decisions(rank)[0].agreed->description, allreduce_of({2, 3}));
    EXPECT_FALSE(world[rank].waits());
  }
}

TEST(Agenda, ABarrierOvertakesWhatWaits) {
  WorldOfAgendas world(2);
  world[0].submit("x", allreduce_of({1}), {});
  world[0].submit("", {}, {});
  world[1].submit("", {}, {});
  world.settle();
  EXPECT_THAT(keys(world.decisions(0)), ElementsAre("barrier #0"));
  EXPECT_THAT(keys(world.decisions(1)), ElementsAre("barrier #0"));
}

TEST(Agenda, AHundredOperationsCostOneMessageEachWayOnEachEdge) {
  WorldOfAgendas world(8);
  for (int rank = 0; rank < world.size(); rank++)
    for (int k = 0; k < 100; k++) world[rank].submit(std::to_string((k * 7 + rank) % 100), allreduce_of({1}), {});
  for (const int rank : {7, 3, 5, 6, 1, 2, 4}) {
    world.send(rank);
    Random random(0);
    while (world.deliver(random)) {
    }
  }
  world.settle();
  EXPECT_EQ(world.decisions(3).size(), 100U);
  EXPECT_EQ(world.messages(), 2 * 7);
}

TEST(Agenda, AKeyIsANumberAfterItsFirstTime) {
  WorldOfAgendas world(2);
  std::vector<std::size_t> bytes;
  for (int step = 0; step < 3; step++) {
    const std::size_t before = world.bytes();
    for (int rank = 0; rank < 2; rank++)
      world[rank].submit("a rather long name of a gradient", allgather_of({0, 7}), {5});
    world.settle();
    bytes.push_back(world.bytes() - before);
  }
  EXPECT_GT(bytes[0], 150U);
  EXPECT_LE(bytes[1], 16U);
  EXPECT_EQ(bytes[1], bytes[2]);
  EXPECT_EQ(world.decisions(0)[2].agreed, world.decisions(0)[0].agreed);
}

TEST(Agenda, ADescriptionThatChangesIsSentAgain) {
  WorldOfAgendas world(3);
  for (const std::uint64_t elems : {4, 4, 9, 9})
    for (int rank = 0; rank < 3; rank++) {
      world[rank].submit("x", allreduce_of({elems}), {});
      if (rank == 2) world.settle();
    }
  for (int rank = 0; rank < 3; rank++) {
    ASSERT_EQ(world.decisions(rank).size(), 4U);
    EXPECT_EQ(world.decisions(rank)[3].agreed->description, allreduce_of({9}));
    EXPECT_EQ(world.decisions(rank)[1].agreed->description, allreduce_of({4}));
  }
}

TEST(Agenda, SizesOfAllRanksReachAllRanks) {
  WorldOfAgendas world(4);
  for (const std::uint64_t step : {0, 1, 1}) {
    for (int rank = 0; rank < 4; rank++)
      world[rank].submit("x", allgather_of({0, 2}), {rank == 3 ? 10 + step : std::uint64_t(rank)});
    world.settle();
    for (int rank = 0; rank < 4; rank++)
      EXPECT_THAT(world.decisions(rank).back().agreed->sizes,
                  ElementsAre(Sizes{0}, Sizes{1}, Sizes{2}, Sizes{10 + step}));
  }
}

TEST(Agenda, ADifferenceNamesBothRanksAndBothValuesAndTheAgendaGoesOn) {
  struct Case {
    Description first, second;
    const char* why;
  };
  const std::vector<Case> cases{
      {allreduce_of({17, 3}), allreduce_of({17, 4}), "rank 0 has shape (17, 3), rank 2 has (17, 4)"},
      {allreduce_of({51}), allreduce_of({17, 3}), "rank 0 has shape (51,), rank 2 has (17, 3)"},
      {allgather_of({0, 3}), allgather_of({0, 4}), "rank 0 has shape (*, 3), rank 2 has (*, 4)"},
      {{.verb = Verb::allreduce, .arrays = {{DType::f32, {2}}}},
       {.verb = Verb::allreduce, .arrays = {{DType::i32, {2}}}},
       "rank 0 has dtype f32, rank 2 has i32"},
      {{.verb = Verb::allreduce, .op = Op::sum},
       {.verb = Verb::allreduce, .op = Op::max},
       "rank 0 has reduction sum, rank 2 has max"},
      {{.verb = Verb::broadcast, .root = 0}, {.verb = Verb::broadcast, .root = 1}, "rank 0 has root 0, rank 2 has 1"},
      {{.verb = Verb::allreduce, .prescale = 2}, {.verb = Verb::allreduce}, "rank 0 has prescale 2, rank 2 has 1"},
      {{.verb = Verb::allreduce, .postscale = 2}, {.verb = Verb::allreduce}, "rank 0 has postscale 2, rank 2 has 1"},
      {{.verb = Verb::allreduce, .wire = DType::f16},
       {.verb = Verb::allreduce},
       "rank 0 has wire type f16, rank 2 has no wire type"},
      {{.verb = Verb::allreduce, .arrays = {{DType::f32, {2}}, {DType::f32, {3}}}},
       allreduce_of({5}),
       "rank 0 has 2 tensors, rank 2 has 1"},
      {{.verb = Verb::allreduce, .arrays = {{DType::f32, {2}}, {DType::f32, {3}}}},
       {.verb = Verb::allreduce, .arrays = {{DType::f32, {2}}, {DType::f32, {4}}}},
       "rank 0 has shape (3,) in tensor 1, rank 2 has (4,)"}};
  for (const Case& each : cases) {
    WorldOfAgendas world(3);
    for (int times = 0; times < 2; times++) {
      for (int rank = 2; rank >= 0; rank--) {
        const Description& mine = rank == 2 ? each.second : each.first;
        world[rank].submit("x", mine, Sizes(number_of_sizes(mine, 3)));
      }
      world.settle();
      for (int rank = 0; rank < 3; rank++) {
        ASSERT_TRUE(world.decisions(rank).back().refusal) << each.why;
        EXPECT_EQ(world.decisions(rank).back().refusal->why, text(each.why, "; 2 of 3 ranks agree with rank 0"));
        EXPECT_EQ(world.decisions(rank).back().refusal->culprit, 2);
      }
    }
    for (int rank = 0; rank < 3; rank++) world[rank].submit("x", each.first, Sizes(number_of_sizes(each.first, 3)));
    world.settle();
    for (int rank = 0; rank < 3; rank++) EXPECT_FALSE(world.decisions(rank).back().refusal);
  }
}

TEST(Agenda, ADifferenceToTheLastTimeIsFoundToo) {
  WorldOfAgendas world(3);
  for (const int odd : {-1, 1}) {
    for (int rank = 0; rank < 3; rank++) world[rank].submit("x", allreduce_of({rank == odd ? 5U : 4U}), {});
    world.settle();
  }
  EXPECT_EQ(world.decisions(2)[1].refusal->why,
            "rank 0 has shape (4,), rank 1 has (5,); 2 of 3 ranks agree with rank 0");
}

// Which ranks are outside of the majority does not matter. The test also uses trees of several levels.
TEST(Agenda, BlamesTheRanksOutsideOfAMajority) {
  for (const int ranks : {3, 4, 5, 9, 20})
    for (int odd = 0; odd < ranks; odd++) {
      WorldOfAgendas world(ranks);
      for (int rank = 0; rank < ranks; rank++) world[rank].submit("x", allreduce_of({rank == odd ? 5U : 4U}), {});
      world.settle();
      const Refusal refusal = world.decisions(ranks - 1).back().refusal.value();
      EXPECT_EQ(refusal.culprit, odd) << ranks;
      EXPECT_THAT(refusal.why, HasSubstr(text("rank ", odd, " has ", odd == 0 ? "shape " : "", "(5,)")));
      EXPECT_THAT(refusal.why, EndsWith(text("; ", ranks - 1, " of ", ranks, " ranks agree with rank ", odd == 0)));
    }
}

TEST(Agenda, BlamesNobodyWithoutAMajority) {
  for (const std::vector<std::uint64_t>& counts :
       {std::vector<std::uint64_t>{1, 2}, {1, 2, 3}, {1, 1, 2, 2}, {3, 1, 1, 2}, {1, 1, 2, 3, 4}}) {
    WorldOfAgendas world(int(counts.size()));
    for (std::size_t rank = 0; rank < counts.size(); rank++)
      world[int(rank)].submit("x", allreduce_of({counts[rank]}), {});
    world.settle();
    for (int rank = 0; rank < world.size(); rank++) {
      EXPECT_EQ(world.decisions(rank).back().refusal->culprit, -1);
      EXPECT_EQ(world.decisions(rank).back().refusal, world.decisions(0).back().refusal);
    }
  }
}

// The ranks have more different descriptions than fit into a report.
TEST(Agenda, FindsAMajorityAmongMany) {
  constexpr int kRanks = 101;
  WorldOfAgendas world(kRanks);
  for (int rank = 0; rank < kRanks; rank++)
    world[rank].submit("x", allreduce_of({rank % 2 == 0 ? 7U : std::uint64_t(100 + rank)}), {});
  world.settle();
  EXPECT_EQ(world.decisions(0).back().refusal->culprit, 1);
}

// Rank 0 decides at once when the others have joined: first all operations that it has held back, and then its join.
TEST(Agenda, ReportsThatWereHeldBackFollowInOrder) {
  for (const int refusals : {1, 2, 3}) {
    WorldOfAgendas world(2);
    for (int k = 0; k < refusals; k++) world[0].refuse("z", Verb::allreduce, "it is wrong");
    world[0].submit("z", allreduce_of({1}), {});
    world[0].submit("a", allreduce_of({1}), {});
    world[0].join();
    world[1].join();
    world.settle();
    const std::vector<std::string> all = keys(world.decisions(0));
    EXPECT_EQ(std::ranges::count(all, "allreduce 'z'"), refusals + 1);
    EXPECT_EQ(std::ranges::count(all, "allreduce 'a'"), 1);
    EXPECT_EQ(all.back(), "join");
    EXPECT_EQ(keys(world.decisions(1)), all);
    EXPECT_FALSE(world[0].waits() || world[1].waits());
  }
}

TEST(Agenda, MessagesNameRanksOfTheWorld) {
  Agenda first(0, {7, 3}), second(1, {7, 3});
  first.submit("x", allreduce_of({1}), {});
  EXPECT_EQ(first.waits_for("allreduce 'x'"), "allreduce 'x' waits for rank 3");
  second.submit("x", allreduce_of({2}), {});
  EXPECT_EQ(second.waits_for("allreduce 'x'"), "allreduce 'x' waits for the answer of rank 7");
  first.receive(1, second.say(0));
  EXPECT_EQ(first.decide()[0].refusal->why, "rank 7 has shape (1,), rank 3 has (2,)");
}

TEST(Agenda, ANameIsTakenUntilItIsReleased) {
  Agenda alone(0, {0});
  alone.submit("x", allreduce_of({1}), {});
  EXPECT_EQ(alone.decide().size(), 1U);
  EXPECT_THAT(message_of([&] { alone.submit("x", allreduce_of({1}), {}); }),
              HasSubstr("allreduce 'x' is still in use"));
  alone.submit("x", allgather_of({0}), {1});  // another verb
  alone.release("allreduce 'x'");
  alone.submit("x", allreduce_of({1}), {});
  EXPECT_THAT(message_of([&] { alone.submit(std::string(5000, 'x'), {}, {}); }), HasSubstr("too long"));
}

TEST(Agenda, UnnamedOperationsAreNumberedByVerb) {
  Agenda alone(0, {0});
  EXPECT_EQ(alone.submit("", allreduce_of({1}), {}), "allreduce #0");
  EXPECT_EQ(alone.submit("", allgather_of({0}), {1}), "allgather #0");
  EXPECT_EQ(alone.submit("", allreduce_of({1}), {}), "allreduce #1");
}

TEST(Agenda, JoinedRanksTakePartInReductionsUntilAllHaveJoined) {
  WorldOfAgendas world(4);
  world[3].submit("", allreduce_of({1}), {});
  world[3].join();
  EXPECT_THAT(message_of([&] { world[3].submit("", {}, {}); }), HasSubstr("this rank has joined"));
  EXPECT_THAT(message_of([&] { world[3].join(); }), HasSubstr("this rank has joined"));
  world[2].join();
  world.settle();
  for (const int rank : {0, 1})
    for (int times = 0; times < 2; times++) world[rank].submit("", allreduce_of({1}), {});
  world[1].submit("b", {}, {});
  world[1].join();
  world.settle();
  EXPECT_THAT(keys(world.decisions(2)), ElementsAre("allreduce #0", "allreduce #1"));
  EXPECT_TRUE(world.decisions(3)[0].mine);
  EXPECT_FALSE(world.decisions(3)[1].mine);
  EXPECT_FALSE(world.decisions(2)[0].mine);
  EXPECT_EQ(world.decisions(2)[1].agreed->description, allreduce_of({1}));
  world[0].join();
  world.settle();
  for (int rank = 0; rank < 4; rank++) {
    EXPECT_EQ(keys(world.decisions(rank)).back(), "join");
    EXPECT_EQ(keys(world.decisions(rank))[2], "barrier 'b'");
    EXPECT_EQ(world.decisions(rank).back().last, 0);
    EXPECT_EQ(world[rank].submit("", allreduce_of({1}), {}), "allreduce #0 after join 1") << "numbered anew";
  }
  world.settle();
  for (int rank = 0; rank < 4; rank++) EXPECT_EQ(keys(world.decisions(rank)).back(), "allreduce #0 after join 1");
}

// One rank refuses an operation and goes on. The operation also fails on ranks that reach it only later.
TEST(Agenda, WhatOneRankRefusesFailsOnAllAndCountsAsSubmitted) {
  WorldOfAgendas world(4);
  EXPECT_TRUE(world[3].refuse("x", Verb::allreduce, "it is wrong"));
  EXPECT_TRUE(world[3].refuse("x", Verb::allreduce, "it is wrong again"));
  EXPECT_EQ(world[3].submit("x", allreduce_of({1}), {}), "allreduce 'x'");
  EXPECT_FALSE(world[3].refuse("x", Verb::allreduce, "the name is taken"));
  world[3].join();
  EXPECT_FALSE(world[3].refuse("y", Verb::allreduce, "it has joined"));
  for (int times = 0; times < 3; times++) {
    for (const int rank : {0, 1, 2}) world[rank].submit("x", allreduce_of({1}), {});
    world.settle();
  }
  for (const int rank : {0, 1, 2}) world[rank].join();
  world.settle();
  for (const int rank : {0, 1, 2, 3}) {
    const std::vector<Decision>& all = world.decisions(rank);
    ASSERT_THAT(keys(all), ElementsAre("allreduce 'x'", "allreduce 'x'", "allreduce 'x'", "join"));
    EXPECT_EQ(all[0].refusal, (Refusal{3, "rank 3 cannot take part: it is wrong"}));
    EXPECT_EQ(all[1].refusal, (Refusal{3, "rank 3 cannot take part: it is wrong again"}));
    EXPECT_TRUE(all[2].agreed);
    EXPECT_EQ(all[0].mine, rank != 3);
    EXPECT_TRUE(all[2].mine);
  }
}

TEST(Agenda, TheLastRankToJoinIsTheSameOnAllRanks) {
  WorldOfAgendas world(4);
  for (const int rank : {0, 1, 2, 3}) {
    world[rank].join();
    world.settle();
  }
  for (int rank = 0; rank < 4; rank++) EXPECT_EQ(world.decisions(rank).back().last, 3);
}

TEST(Agenda, WhatJoinedRanksCannotGiveIsRefused) {
  for (const Verb verb : {Verb::allgather, Verb::broadcast, Verb::alltoall, Verb::reduce_scatter}) {
    WorldOfAgendas world(3);
    const Description description{.verb = verb, .root = 0, .arrays = {{DType::f32, {0}}}};
    const Sizes sizes(number_of_sizes(description, 3), 1);
    for (const bool before : {true, false}) {
      for (int rank = 0; rank < 3; rank++)
        if (before || rank != 1) world[rank].submit("x", description, sizes);
      if (!before) world[1].join();
      world.settle();
    }
    for (int rank = 0; rank < 3; rank++) {
      ASSERT_EQ(world.decisions(rank).size(), 2U);
      EXPECT_EQ(world.decisions(rank)[1].refusal, (Refusal{1, "rank 1 has joined, so it has no tensor to give"}));
    }
  }
}

TEST(Agenda, WhatIsNotAllowedToBeSaidIsAViolationOfTheProtocol) {
  const auto said = [](Item item) {
    Writer out;
    encode(item, out);
    return std::move(out).take();
  };
  const auto code_of = [](int rank, int from, const std::string& message) {
    Agenda agenda(rank, {0, 1, 2, 3});
    try {
      agenda.receive(from, message);
    } catch (const Error& e) {
      EXPECT_EQ(e.rank(), from);
      return e.code();
    }
    return ErrorCode{};
  };
  const Item ready{.type = Item::Type::ready, .key = "barrier #0", .description = Description{}, .described_by = 2};
  Item run = ready, unknown = ready, undescribed = ready;
  run.type = Item::Type::run;
  unknown.key.clear();
  unknown.number = 3;
  undescribed.description.reset();
  EXPECT_EQ(code_of(0, 2, said(ready)), ErrorCode{});
  EXPECT_EQ(code_of(2, 0, said(ready)), ErrorCode::protocol) << "a report from the parent";
  EXPECT_EQ(code_of(0, 2, said(run)), ErrorCode::protocol) << "a decision from a child";
  EXPECT_EQ(code_of(2, 0, said(run)), ErrorCode::protocol) << "a decision that this rank did not ask for";
  EXPECT_EQ(code_of(0, 2, said(ready) + said(ready)), ErrorCode::protocol) << "twice";
  EXPECT_EQ(code_of(0, 2, said(unknown)), ErrorCode::protocol);
  EXPECT_EQ(code_of(0, 2, said(undescribed)), ErrorCode::protocol);
  for (std::size_t bytes = 1; bytes < said(ready).size(); bytes++)
    EXPECT_EQ(code_of(0, 2, said(ready).substr(0, bytes)), ErrorCode::protocol) << bytes;
}

}  // namespace
}  // namespace anello::agenda
