// Ops that cannot be carried out report the reason to TensorFlow, on each rank.
#include <latch>

#include "tests/tensorflow/with_ops.hpp"

namespace anello::tensorflow {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Failures = WithOps;

Value numbers(int64_t count) {
  return value<float>({count}, std::vector<float>(std::size_t(count), 1.0f));
}

TEST_F(Failures, OfRanksThatDifferAreToldToAllAndTheWorldGoesOn) {
  on_ranks(2, [](const Rank& its) {
    const Node node = its.node("AnelloAllreduce", {kFloat}, {}, "grad");
    const Result result = run(node, {numbers(2 + its.rank)});
    EXPECT_EQ(result.code, kFailedPrecondition);
    EXPECT_EQ(result.message, "allreduce 'grad': rank 0 has shape (2,), rank 1 has (3,)");
    EXPECT_THAT(elements<float>(outputs_of(run(node, {numbers(1)}))[0]), ElementsAre(2));
  });
}

TEST_F(Failures, ComeWithoutAWorldAndWithoutTheSet) {
  const auto fails = [](std::map<std::string, fake::Attribute> attributes, int code = kFailedPrecondition) {
    attributes["distinct"] = "";
    const Node node("AnelloAllreduce", "sum", std::move(attributes), {kFloat});
    const Result result = run(node, {numbers(1)});
    EXPECT_EQ(result.code, code);
    return result.message;
  };
  EXPECT_EQ(fails({}), "Horovod has not been initialized; use hvd.init().");
  anello_tensorflow_begin_world(0, 2, 0, 2);
  EXPECT_EQ(fails({}), kNotRegistered);
  const int other = 1;
  anello_tensorflow_add_process_set(4, nullptr, 1, &other);
  EXPECT_EQ(fails({{"process_set", 4}}, kInvalidArgument),
            "this process is not one of the ranks of the operation's process set");
}

TEST_F(Failures, NameWrongArguments) {
  on_ranks(2, [](const Rank& its) {
    const auto fails = [](const Node& node, std::vector<Value> inputs) {
      const Result result = run(node, std::move(inputs));
      EXPECT_EQ(result.code, kInvalidArgument);
      return result.message;
    };
    EXPECT_EQ(fails(its.node("AnelloBroadcast", {kFloat}, {{"root", 2}}), {numbers(1)}),
              "the root, rank 2, is not one of the 2 ranks of the process set");
    const Node alltoall = its.node("AnelloAlltoall", {kFloat, kInt});
    EXPECT_EQ(fails(alltoall, {numbers(3), value<int32_t>({3}, {1, 1, 1})}), "there are 3 splits for 2 ranks");
    EXPECT_THAT(fails(alltoall, {numbers(3), value<int32_t>({2}, {-1, 4})}), HasSubstr("more than the 3 rows"));
    EXPECT_THAT(fails(alltoall, {numbers(3), value<int32_t>({2}, {1, 1})}), HasSubstr("2 of the 3 rows"));
    EXPECT_THAT(fails(its.node("AnelloAllreduce", {kInt}, {{"wire", "f16"}}), {value<int32_t>({1}, {1})}),
                HasSubstr("i32 cannot travel as f16"));
    EXPECT_THAT(fails(its.node("AnelloAllgather", {kFloat, kLong}), {value<float>({}, {1})}),
                HasSubstr("first dimension"));
  });
}

TEST_F(Failures, OfOneRanksArgumentsAreToldToTheOthers) {
  on_ranks(2, [](const Rank& its) {
    const Node node = its.node("AnelloAlltoall", {kFloat, kInt});
    const Result result = run(node, {numbers(2), value<int32_t>({2}, {its.rank ? -1 : 1, 1})});
    EXPECT_EQ(result.code, its.rank ? kInvalidArgument : kFailedPrecondition);
    EXPECT_THAT(result.message, HasSubstr("more than the 2 rows"));
  });
}

TEST_F(Failures, BeforeAnOperationReachTheOtherRanks) {
  on_ranks(2, [](const Rank& its) {
    const auto fails = [&](const Result& result, const std::string& why) {
      EXPECT_EQ(result.code, its.rank ? kInvalidArgument : kFailedPrecondition);
      EXPECT_THAT(result.message, HasSubstr(its.rank ? why : "rank 1 cannot take part: " + why));
    };
    const Node broadcast = its.node("AnelloBroadcast", {kFloat}, {{"root", its.rank ? 2 : 0}});
    fails(run(broadcast, {numbers(1)}), "the root, rank 2, is not one of the 2 ranks");
    const Node alltoall = its.node("AnelloAlltoall", {kFloat, kInt});
    const std::vector<int32_t> splits(std::size_t(2 + its.rank), 1);
    fails(run(alltoall, {numbers(2), value<int32_t>({int64_t(splits.size())}, splits)}),
          "there are 3 splits for 2 ranks");
  });
}

// TensorFlow has no memory for one rank: the first rank that comes.
TEST_F(Failures, OfTheMemoryOfOneRankReachTheOthers) {
  std::array<Result, 2> results;
  fake::fail("TF_ForwardInputOrAllocateOutput", 0);
  on_ranks(2, [&](const Rank& its) {
    const Node node = its.node("AnelloAllreduce", {kFloat});
    results[std::size_t(its.rank)] = run(node, {numbers(1)});
    EXPECT_THAT(elements<float>(outputs_of(run(node, {numbers(1)}))[0]), ElementsAre(2));
  });
  const auto& [without, with] =
      results[0].code == kResourceExhausted ? std::tie(results[0], results[1]) : std::tie(results[1], results[0]);
  EXPECT_EQ(without.message, "the fake fails in TF_ForwardInputOrAllocateOutput");
  EXPECT_EQ(with.code, kFailedPrecondition);
  EXPECT_THAT(with.message, HasSubstr("cannot take part: " + without.message));
}

TEST_F(Failures, OfTheWorldNameTheRankThatEndedIt) {
  // Each rank counts this down when its first operation has ended. Otherwise the world could end before this operation.
  std::latch first_has_ended(3);
  const auto program = [&](anello::World& world) {
    anello_group group{world};
    Rank its{world.rank(), world.size(), nullptr, world};
    ASSERT_EQ(anello_agenda_create(&group, &its.agenda), ANELLO_OK);
    add_set(its);
    const Node node = its.node("AnelloAllreduce", {kFloat});
    Result first = run(node, {numbers(1)});
    first_has_ended.arrive_and_wait();
    outputs_of(std::move(first));
    if (its.rank == 1) {
      world.abort("no more disk");
    } else {
      const Result result = run(node, {numbers(1)});
      EXPECT_EQ(result.code, kInternalError);
      EXPECT_THAT(result.message, testing::AllOf(HasSubstr("rank 1"), HasSubstr("no more disk")));
      EXPECT_EQ(run(node, {numbers(1)}).code, kInternalError);
    }
    anello_tensorflow_remove_process_set(its.rank);
    anello_agenda_free(its.agenda);
  };
  for (const auto& told : told_on_all_ranks(3, program)) EXPECT_EQ(told.error, std::nullopt);
}

TEST_F(Failures, EndWhatIsUnderWayWhenTheAgendaEnds) {
  run_world(2, [](anello::World& world) {
    anello_group group{world};
    Rank its{world.rank(), world.size(), nullptr, world};
    ASSERT_EQ(anello_agenda_create(&group, &its.agenda), ANELLO_OK);
    add_set(its);
    if (its.rank == 0) {
      const Node node = its.node("AnelloAllgather", {kFloat, kLong});
      auto never = node.run({numbers(1), now()});
      anello_tensorflow_remove_process_set(its.rank);
      anello_agenda_free(its.agenda);
      EXPECT_EQ(result_of(never).code, kInternalError);
    } else {
      anello_tensorflow_remove_process_set(its.rank);
      anello_agenda_free(its.agenda);
    }
    world.barrier();
  });
}

// TensorFlow lacks memory before the operation, or after it.
TEST_F(Failures, OfTensorFlowArePassedOn) {
  const struct {
    const char *op, *function;
    std::vector<int> types;
  } cases[] = {{"AnelloAllreduce", "TF_GetInput", {kFloat}},
               {"AnelloAllreduce", "TF_ForwardInputOrAllocateOutput", {kFloat}},
               {"AnelloAllgather", "TF_SetOutput", {kFloat, kLong}},
               {"AnelloAllgather", "TF_AllocateOutput", {kFloat, kLong}},
               {"AnelloReducescatter", "TF_SetOutput", {kFloat}},
               {"AnelloRank", "TF_AllocateOutput", {kInt}}};
  for (const auto& each : cases)
    on_ranks(1, [&](const Rank& its) {
      const Node node = its.node(each.op, each.types);
      const bool is_number = std::string(each.op) == "AnelloRank";
      const auto run_once = [&] {
        auto result = is_number ? node.run({}) : node.run({numbers(3), now()});
        return result_of(result);
      };
      fake::fail(each.function, 0);
      const Result result = run_once();
      EXPECT_EQ(result.code, kResourceExhausted) << each.op;
      EXPECT_EQ(result.message, std::string("the fake fails in ") + each.function);
      EXPECT_EQ(run_once().code, 0) << each.op << " after " << each.function;
    });
}

}  // namespace
}  // namespace anello::tensorflow
