// Tests which operations rank 0 holds back, and which of these operations all ranks carry out as one list.
#include <anello/error.hpp>

#include "tests/agenda/world_of_agendas.hpp"

namespace anello::agenda {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Returns the keys of the decisions, with " +" after an operation that is in one list with the next one.
std::vector<std::string> lists(const std::vector<Decision>& decisions) {
  std::vector<std::string> all;
  for (const Decision& decision : decisions) all.push_back(decision.key + (decision.with_next ? " +" : ""));
  return all;
}

class AgendaLists : public testing::Test {
 protected:
  AgendaLists() { world_[0].hold(true); }
  void submit(const std::string& name, const Description& description, const Sizes& sizes = {}) {
    for (int rank = 0; rank < world_.size(); rank++) world_[rank].submit(name, description, sizes);
    world_.settle();
  }
  void decide_held() {
    world_[0].decide_held();
    world_.settle();
  }
  template <class... Keys>
  void expect(const Keys&... keys) {
    for (int rank = 0; rank < world_.size(); rank++) EXPECT_THAT(lists(world_.decisions(rank)), ElementsAre(keys...));
  }

  WorldOfAgendas world_{5, may_be_in_list};
};

TEST_F(AgendaLists, WhatIsHeldBackIsDecidedAsOneList) {
  for (const std::string name : {"x", "y", "z"}) submit(name, allreduce_of({7}));
  for (int rank = 0; rank < world_.size(); rank++) EXPECT_THAT(world_.decisions(rank), IsEmpty());
  EXPECT_TRUE(world_[0].has_held());
  EXPECT_EQ(world_[0].waits_for("allreduce 'y'"), "allreduce 'y' waits for operations that began before it");
  EXPECT_EQ(world_[2].waits_for("allreduce 'y'"), "allreduce 'y' waits for the answer of rank 0");
  decide_held();
  expect("allreduce 'x' +", "allreduce 'y' +", "allreduce 'z'");
  EXPECT_FALSE(world_[0].has_held() || world_[0].waits());
}

TEST_F(AgendaLists, WithoutHoldingAMessageOfReportsIsOneList) {
  world_[0].hold(false);
  for (const std::string name : {"x", "y", "z"})
    for (int rank = 0; rank < world_.size(); rank++) world_[rank].submit(name, allreduce_of({7}), {});
  world_.settle();
  ASSERT_EQ(world_.decisions(0).size(), 3U);
  EXPECT_TRUE(world_.decisions(0)[0].with_next) << "the last rank's reports came in one message";
  submit("alone", allreduce_of({7}));
  EXPECT_FALSE(world_.decisions(4).back().with_next);
}

TEST_F(AgendaLists, AnotherOperationEndsTheList) {
  submit("x", allreduce_of({7}));
  submit("y", allreduce_of({1, 2}));
  submit("g", allgather_of({0, 7}), {5});
  expect("allreduce 'x' +", "allreduce 'y'", "allgather 'g'");
  submit("", {});
  EXPECT_EQ(world_.decisions(1).size(), 4U) << "a barrier is not held back";
}

TEST_F(AgendaLists, WhatIsCarriedOutInOtherWaysIsInOtherLists) {
  Description average = allreduce_of({7}), scaled = allreduce_of({7}), wire = allreduce_of({7}),
              on_gpu = allreduce_of({7});
  average.op = Op::average;
  scaled.prescale = 2;
  wire.wire = DType::f16;
  on_gpu.on_gpu = true;
  for (const Description& other : {average, scaled, wire, on_gpu}) {
    world_[0].hold(true);
    const std::size_t before = world_.decisions(0).size();
    submit("x", allreduce_of({7}));
    submit("y", other);
    decide_held();
    ASSERT_EQ(world_.decisions(3).size(), before + 2);
    EXPECT_FALSE(world_.decisions(3)[before].with_next);
  }
}

TEST_F(AgendaLists, AFullListIsNotHeldBack) {
  const std::uint64_t half = (std::uint64_t(128) << 10) / sizeof(float);
  submit("x", allreduce_of({half}));
  submit("y", allreduce_of({half}));
  EXPECT_THAT(world_.decisions(0), IsEmpty());
  submit("z", allreduce_of({1}));
  expect("allreduce 'x' +", "allreduce 'y'", "allreduce 'z'");
}

TEST_F(AgendaLists, WhatDiffersFailsAloneAndTheOthersAreLists) {
  submit("a", allreduce_of({7}));
  submit("b", allreduce_of({7}));
  for (int rank = 0; rank < world_.size(); rank++) world_[rank].submit("odd", allreduce_of({rank == 2 ? 8U : 7U}), {});
  world_.settle();
  submit("c", allreduce_of({7}));
  expect("allreduce 'a' +", "allreduce 'b'", "allreduce 'odd'");
  ASSERT_EQ(world_.decisions(4).size(), 3U);
  EXPECT_THAT(world_.decisions(4)[2].refusal->why, HasSubstr("rank 0 has shape (7,), rank 2 has (8,)"));
  decide_held();
  EXPECT_EQ(world_.decisions(4).back().key, "allreduce 'c'");
}

TEST_F(AgendaLists, AJoinOfAllIsNotHeldBack) {
  world_[3].join();
  for (const int rank : {0, 1, 2, 4})
    for (const std::string name : {"x", "y"}) world_[rank].submit(name, allreduce_of({7}), {});
  world_.settle();
  EXPECT_THAT(world_.decisions(3), IsEmpty());
  for (const int rank : {0, 1, 2, 4}) world_[rank].join();
  world_.settle();
  expect("allreduce 'x' +", "allreduce 'y'", "");
  EXPECT_FALSE(world_.decisions(3)[0].mine);
}

// In a group of two, rank 1 gets decisions that a correct rank 0 never sends.
TEST(AgendaListsMessages, AListMustBeWholeAndOfAllreduces) {
  const auto message_of = [](Item::Type type, const std::string& key, const Description& description) {
    Writer out;
    encode(Item{.type = type, .key = key, .description = description}, out);
    return std::move(out).take();
  };
  const std::string open = message_of(Item::Type::run_with_next, "allreduce 'x'", allreduce_of({7}));
  const std::string barrier = message_of(Item::Type::run, "barrier #0", {});
  for (const std::string& message : {open, open + barrier}) {
    Agenda agenda(1, {0, 1});
    agenda.submit("x", allreduce_of({7}), {});
    agenda.submit("", {}, {});
    try {
      agenda.receive(0, message);
      ADD_FAILURE() << "it was taken";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::protocol);
      EXPECT_THAT(e.message(), HasSubstr("list"));
      EXPECT_EQ(e.rank(), 0);
    }
  }
}

}  // namespace
}  // namespace anello::agenda
