// The registered ops, and the reasons for which a registration can fail.
#include "tests/tensorflow/with_ops.hpp"

namespace anello::tensorflow {
namespace {

using fake::Shape;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

std::vector<std::string> names_of(const std::vector<fake::Argument>& arguments) {
  std::vector<std::string> names;
  for (const auto& each : arguments) names.push_back(each.name);
  return names;
}

using Registration = WithOps;

TEST_F(Registration, DefinesEachOp) {
  std::vector<std::string> names;
  for (const auto& [name, op] : fake::ops()) names.push_back(name);
  EXPECT_THAT(names,
              UnorderedElementsAre("AnelloAllreduce", "AnelloReducescatter", "AnelloAllgather", "AnelloBroadcast",
                                   "AnelloAlltoall", "AnelloBarrier", "AnelloJoin", "AnelloRank", "AnelloSize",
                                   "AnelloLocalRank", "AnelloLocalSize", "AnelloProcessSetIncluded"));
}

TEST_F(Registration, GivesEachOpAKernelForEachDevice) {
  for (const auto& [name, op] : fake::ops()) {
    EXPECT_THAT(fake::kernel(name, "CPU").host_memory, testing::IsEmpty());
    std::vector<std::string> arguments = names_of(op.inputs), outputs = names_of(op.outputs);
    arguments.insert(arguments.end(), outputs.begin(), outputs.end());
    EXPECT_THAT(fake::kernel(name, "GPU").host_memory, testing::UnorderedElementsAreArray(arguments)) << name;
  }
}

// TensorFlow runs stateful ops one after the other, merges equal stateless ops, and runs ops of constants while it
// prepares a graph.
TEST_F(Registration, KeepsTensorFlowFromChainingMergingAndFolding) {
  for (const auto& [name, op] : fake::ops()) {
    const bool has_tensors = !op.inputs.empty();
    EXPECT_EQ(op.stateful, !has_tensors) << name;
    if (!has_tensors) continue;
    EXPECT_EQ(op.inputs.back().name, "now") << name;
    EXPECT_EQ(op.inputs.back().type, "int32") << name;
    ASSERT_TRUE(op.attributes.contains("distinct")) << name;
    EXPECT_FALSE(op.attributes.at("distinct").value_if_missing) << name;
  }
}

TEST_F(Registration, TakesHorovodsNumberOfASumByDefault) {
  EXPECT_EQ(std::get<int32_t>(*fake::ops().at("AnelloAllreduce").attributes.at("reduce_op").value_if_missing), 1);
}

TEST_F(Registration, GivesPythonTheTypesOfItsOps) {
  std::set<int> numbers;
  for (int k = 0; anello_tensorflow_type(k) != 0; k++) numbers.insert(anello_tensorflow_type(k));
  EXPECT_THAT(numbers, UnorderedElementsAre(1, 2, 3, 4, 5, 6, 9, 10, 14, 17, 19, 22, 23));
  EXPECT_THAT(fake::ops().at("AnelloAlltoall").attributes.at("T").allowed,
              UnorderedElementsAre("uint8", "int8", "uint16", "int16", "int32", "int64", "uint32", "uint64", "half",
                                   "bfloat16", "float", "double", "bool"));
}

TEST_F(Registration, InfersShapes) {
  const Shape scalar{true, {}}, unknown{}, pair{true, {2, 3}}, other{true, {-1, 3}}, vector{true, {-1}};
  EXPECT_THAT(fake::infer("AnelloAllreduce", {pair, unknown, scalar, scalar}, 3), ElementsAre(pair, unknown, scalar));
  EXPECT_THAT(fake::infer("AnelloBroadcast", {pair, scalar}, 1), ElementsAre(pair));
  EXPECT_THAT(fake::infer("AnelloReducescatter", {pair, unknown, scalar}, 2), ElementsAre(other, unknown));
  EXPECT_THAT(fake::infer("AnelloAllgather", {pair, unknown, scalar}, 3),
              ElementsAre(other, unknown, Shape{true, {2, -1}}));
  EXPECT_THAT(fake::infer("AnelloAllgather", {scalar, scalar}, 2), ElementsAre(unknown, Shape{true, {1, -1}}));
  EXPECT_THAT(fake::infer("AnelloAlltoall", {pair, unknown, scalar}, 2), ElementsAre(other, vector));
  EXPECT_THAT(fake::infer("AnelloBarrier", {}, 0), ElementsAre());
  for (const char* op : {"AnelloJoin", "AnelloRank", "AnelloSize", "AnelloProcessSetIncluded"})
    EXPECT_THAT(fake::infer(op, {}, 1), ElementsAre(scalar)) << op;
}

TEST_F(Registration, NamesAFunctionThatIsMissing) {
  EXPECT_EQ(fake::functions().size(), 50u);
  for (const std::string& function : fake::functions()) {
    fake::begin();
    fake::drop(function);
    EXPECT_EQ(register_ops(fake::look_up), "libtensorflow_framework.so.2 has no function " + function);
    EXPECT_THAT(fake::ops(), testing::IsEmpty());
  }
}

TEST_F(Registration, SaysWhyTensorFlowRefusesAnOp) {
  for (const char* function : {"TF_RegisterOpDefinition", "TF_RegisterKernelBuilder"}) {
    fake::begin();
    fake::fail(function, 3);
    EXPECT_EQ(register_ops(fake::look_up), std::string("the fake fails in ") + function);
  }
  fake::begin();
  EXPECT_EQ(register_ops(fake::look_up), "");
  EXPECT_THAT(register_ops(fake::look_up), HasSubstr("there is an op AnelloAllreduce"));
}

TEST_F(Registration, RefusesReductionsThatThereAreNot) {
  for (const int32_t number : {2, 6, -1}) {
    const Node node("AnelloAllreduce", "node", {{"reduce_op", number}, {"distinct", "1"}}, {kFloat});
    EXPECT_EQ(node.failure().code, kInvalidArgument);
    EXPECT_EQ(node.failure().message,
              "reduce_op " + std::to_string(number) + " is not available: use Average, Sum, Min, Max or Product");
  }
}

TEST_F(Registration, RefusesFactorsThatAreNoNumbers) {
  for (const char* text : {"", "1 ", "half", "0x"}) {
    const Node node("AnelloAllreduce", "node", {{"postscale", text}, {"distinct", "1"}}, {kFloat});
    EXPECT_EQ(node.failure().message, std::string("postscale must be a number, not '") + text + "'");
  }
}

TEST_F(Registration, MakesNoKernelOfAttributesThatCannotBeRead) {
  for (const char* kind : {"Int32", "Bool", "Size", "String"}) {
    fake::begin();
    ASSERT_EQ(register_ops(fake::look_up), "");
    fake::fail(std::string("TF_OpKernelConstruction_GetAttr") + kind, 0);
    const Node node("AnelloAllreduce", "node", {{"ignore_name_scope", true}, {"wire", "f16"}, {"distinct", "1"}},
                    {kFloat});
    EXPECT_EQ(node.failure().code, kResourceExhausted) << kind;
  }
}

}  // namespace
}  // namespace anello::tensorflow
