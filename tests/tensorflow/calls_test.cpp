// How kernels use TensorFlow's threads, callbacks and memory.
#include <dlfcn.h>
#include <thread>

#include "tests/tensorflow/with_ops.hpp"
#include "trainer/python/tensorflow/collective.hpp"
#include "trainer/python/tensorflow/done_callback.hpp"

namespace anello::tensorflow {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

using Calls = WithOps;

Value ones(int64_t count) {
  return value<float>({count}, std::vector<float>(std::size_t(count), 1.0f));
}

bool is_ready(const std::future<Result>& future) {
  return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

// Each rank runs all nodes on one thread, in an order that differs between ranks. So no node may wait for its
// operation.
TEST_F(Calls, MayComeInAnotherOrderOnEachRank) {
  on_ranks(3, [](const Rank& its) {
    constexpr std::size_t kNodes = 24;
    std::vector<std::unique_ptr<Node>> nodes;
    std::vector<std::future<Result>> results(kNodes);
    for (std::size_t k = 0; k < kNodes; k++) {
      const auto types = k % 2 ? std::vector<int>{kFloat} : std::vector<int>{kFloat, kLong};
      const std::string name = std::to_string(k);
      nodes.push_back(std::unique_ptr<Node>(new Node(k % 2 ? "AnelloAllreduce" : "AnelloAllgather", name,
                                                     {{"process_set", its.rank}, {"distinct", name}}, types)));
    }
    for (std::size_t k = 0; k < kNodes; k++) {
      const std::size_t which = (k * (its.rank == 0 ? 1 : its.rank == 1 ? 5 : 7)) % kNodes;
      results[which] = nodes[which]->run({ones(int64_t(1 + which * 1000)), now()});
    }
    for (std::size_t k = 0; k < kNodes; k++) {
      const Value made = outputs_of(result_of(results[k]))[0];
      EXPECT_THAT(elements<float>(made), Each(k % 2 ? 3.0f : 1.0f));
    }
  });
}

TEST_F(Calls, ReturnBeforeOtherRanksCome) {
  std::promise<void> returned;
  on_ranks(2, [&](const Rank& its) {
    const Node node = its.node("AnelloAllreduce", {kFloat});
    if (its.rank == 1) returned.get_future().wait_for(std::chrono::seconds(20));
    auto result = node.run({ones(4), now()});
    if (its.rank == 0) {
      EXPECT_FALSE(is_ready(result));
      returned.set_value();
    }
    EXPECT_THAT(elements<float>(outputs_of(result_of(result))[0]), Each(2.0f));
  });
}

TEST_F(Calls, OfALateRankComeToTheSameEnd) {
  fake::call_before("TF_ForwardInputOrAllocateOutput",
                    [] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); });
  on_ranks(3, [&](const Rank& its) {
    const Node node = its.node("AnelloAllreduce", {kFloat});
    for (int step = 0; step < 20; step++) {
      if (its.rank == step % 3) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      EXPECT_THAT(elements<float>(outputs_of(run(node, {ones(100)}))[0]), Each(3.0f));
    }
  });
}

// A library of another compiler would pass a callback like this one. The kernel must then wait for the operation's end
// before it returns, because TensorFlow's object is valid only until then.
TEST_F(Calls, WaitIfTheCallbackCannotBeKept) {
  fake::give_other_callbacks();
  on_ranks(2, [](const Rank& its) {
    const Node node = its.node("AnelloAllreduce", {kFloat}), wrong = its.node("AnelloAllreduce", {kFloat}, {}, "wrong");
    auto result = node.run({ones(4), now()});
    EXPECT_TRUE(is_ready(result));
    EXPECT_THAT(elements<float>(outputs_of(result_of(result))[0]), Each(2.0f));
    auto mismatch = wrong.run({ones(1 + its.rank), now()});
    EXPECT_TRUE(is_ready(mismatch));
    EXPECT_THAT(result_of(mismatch).message, HasSubstr("rank 0 has shape (1,), rank 1 has (2,)"));
  });
}

// The input `now` of a node that waits.
Value now_of(const std::string& name, double prescale = 1, double postscale = 1) {
  const double factors[] = {prescale, postscale};
  std::vector<int32_t> words(4);
  std::memcpy(words.data(), factors, sizeof factors);
  words.insert(words.end(), name.begin(), name.end());
  return value<int32_t>({int64_t(words.size())}, words);
}

TEST_F(Calls, OfNodesThatWaitEndBeforeTheyReturn) {
  on_ranks(2, [](const Rank& its) {
    const Node node = its.node("AnelloAllreduce", {kFloat}, {{"waits", true}});
    for (const std::string name : {"", "loss", ""}) {
      auto result = node.run({ones(4), now_of(name)});
      EXPECT_TRUE(is_ready(result));
      EXPECT_THAT(elements<float>(outputs_of(result_of(result))[0]), Each(2.0f));
    }
    auto scaled = node.run({ones(4), now_of("", 3, 0.25)});
    EXPECT_THAT(elements<float>(outputs_of(result_of(scaled))[0]), Each(1.5f));
    EXPECT_EQ(anello_tensorflow_take_failure(), ANELLO_OK);
  });
}

TEST_F(Calls, OfNodesThatWaitSayWhyTheyHaveFailed) {
  on_ranks(2, [](const Rank& its) {
    const Node node = its.node("AnelloAllreduce", {kFloat}, {{"waits", true}}),
               rootless = its.node("AnelloBroadcast", {kFloat}, {{"waits", true}, {"root", 7}});
    for (const std::string name : {"", "loss"}) {
      auto result = node.run({ones(1 + its.rank), now_of(name)});
      EXPECT_TRUE(is_ready(result));
      EXPECT_THAT(result_of(result).message, HasSubstr(name.empty() ? "allreduce #" : "allreduce 'loss'"));
      EXPECT_EQ(anello_tensorflow_take_failure(), ANELLO_MISMATCH);
      EXPECT_THAT(anello_last_error(), HasSubstr("rank 0 has shape (1,), rank 1 has (2,)"));
      EXPECT_EQ(anello_tensorflow_take_failure(), ANELLO_OK);
    }
    auto result = rootless.run({ones(1), now_of("")});
    EXPECT_THAT(result_of(result).message, HasSubstr("the root, rank 7, is not one of the 2 ranks"));
    EXPECT_EQ(anello_tensorflow_take_failure(), -1);
    auto forgotten = rootless.run({ones(1), now_of("")});
    EXPECT_NE(result_of(forgotten).code, 0);
    anello_tensorflow_forget_failure();
    EXPECT_EQ(anello_tensorflow_take_failure(), ANELLO_OK);
  });
}

TEST(DoneCallbacks, AreKeptIfTheyAreStdFunctions) {
  int calls = 0;
  const std::string captured(100, 'x');
  const std::function<void()> small = [&calls] { calls++; },
                              large = [&calls, captured] { calls += captured.size() > 0; };
  EXPECT_TRUE(is_std_function(&small));
  EXPECT_TRUE(is_std_function(&large));
  const std::function<void()> empty;
  EXPECT_FALSE(is_std_function(&empty));
  const void* const on_heap[4] = {nullptr, nullptr, captured.data(), captured.data()};
  EXPECT_FALSE(is_std_function(on_heap));
  static int data = 0;  // a linker may put constants beside code
  const void* const in_data[4] = {nullptr, nullptr, &data, &data};
  EXPECT_FALSE(is_std_function(in_data));
  const void* const half[4] = {nullptr, nullptr, reinterpret_cast<const void* const*>(&small)[2], &data};
  EXPECT_FALSE(is_std_function(half));
  // A std::function's two pointers to code point into one library, so this is no std::function.
  const void* const two[4] = {nullptr, nullptr, reinterpret_cast<const void* const*>(&small)[2],
                              reinterpret_cast<const void*>(&dladdr)};
  EXPECT_FALSE(is_std_function(two));
}

TEST_F(Calls, WorkInMemoryThatNothingElseUses) {
  on_ranks(2, [](const Rank& its) {
    for (const char* op : {"AnelloAllreduce", "AnelloBroadcast"}) {
      std::map<std::string, fake::Attribute> attributes;
      if (std::string(op) == "AnelloBroadcast") attributes["root"] = 1;
      const Node node = its.node(op, {kFloat, kFloat}, attributes);
      Value given = ones(3);
      const Value held = ones(3);
      const void *where = given.buffer->data, *elsewhere = held.buffer->data;
      std::vector<Value> inputs(2, held);
      inputs[0] = std::move(given);
      const auto made = outputs_of(run(node, std::move(inputs)));
      EXPECT_EQ(made[0].buffer->data, where);
      EXPECT_NE(made[1].buffer->data, elsewhere);
      EXPECT_THAT(elements<float>(held), Each(1.0f));
    }
  });
}

// Outputs that the library makes reach TensorFlow without a copy, in the library's memory. This memory is freed with
// the tensor.
TEST_F(Calls, GiveTensorFlowWhatTheyHaveMade) {
  on_ranks(2, [](const Rank& its) {
    const Node node = its.node("AnelloAllgather", {kFloat, kLong});
    std::vector<Value> made = outputs_of(run(node, {ones(1000)}));
    EXPECT_THAT(elements<float>(made[0]), testing::SizeIs(2000));
    made[0] = {};
    EXPECT_THAT(elements<float>(outputs_of(run(node, {ones(1)}))[0]), ElementsAre(1, 1));
  });
}

TEST_F(Calls, OfOneNodeInALoopGoOnTogether) {
  on_ranks(2, [](const Rank& its) {
    const Node node = its.node("AnelloAllreduce", {kFloat}, {}, "body/sum");
    std::vector<std::future<Result>> results(12);
    for (std::size_t k = 0; k < results.size(); k++) {
      const std::size_t which = its.rank == 0 ? k : results.size() - 1 - k;
      const fake::Run place{.frame = 77 + which / 6, .iteration = int64_t(which % 6)};  // two loops
      results[which] = node.run({value<float>({1}, {float(which)}), now()}, place);
    }
    for (std::size_t k = 0; k < results.size(); k++)
      EXPECT_THAT(elements<float>(outputs_of(result_of(results[k]))[0]), ElementsAre(2.0f * float(k)));
  });
}

TEST_F(Calls, OfOneNodeAreNamedAfterTheirIteration) {
  on_ranks(2, [](const Rank& its) {
    const Node node = its.node("AnelloAllreduce", {kFloat}, {}, "body/sum");
    auto result = node.run({ones(1 + its.rank), now()}, {.frame = 0xab, .iteration = 3});
    EXPECT_THAT(result_of(result).message, HasSubstr("allreduce 'body/sum [iteration 3 of loop ab]': rank 0 has"));
    auto first = node.run({ones(1 + its.rank), now()}, {.frame = 0xab, .iteration = 0});
    EXPECT_THAT(result_of(first).message, HasSubstr("[iteration 0 of loop ab]"));
  });
}

TEST_F(Calls, OutsideLoopsHaveNamesOfTheirOwn) {
  on_ranks(2, [](const Rank& its) {
    const auto name_of = [&](const Node& node) {
      const std::string message = run(node, {ones(1 + its.rank)}).message;
      return message.substr(0, message.find(':'));
    };
    EXPECT_EQ(name_of(its.node("AnelloAllreduce", {kFloat}, {}, "scope/inner/sum")), "allreduce 'scope/inner/sum'");
    EXPECT_EQ(name_of(its.node("AnelloAllreduce", {kFloat}, {{"ignore_name_scope", true}}, "scope/inner/sum")),
              "allreduce 'sum'");
  });
}

TEST_F(Calls, OfOneNameAreRefusedWhileOneIsUnderWay) {
  on_ranks(2, [](const Rank& its) {
    const Node node = its.node("AnelloAllreduce", {kFloat});
    std::promise<void> refused;
    auto first = node.run({ones(1), now()});
    if (its.rank == 0) {
      const Result second = run(node, {ones(1)});
      // If rank 1 has come, the name is free again; then the second call waits for rank 1's second call.
      if (second.code != 0) {
        EXPECT_EQ(second.code, kInvalidArgument);
      }
    }
    outputs_of(result_of(first));
  });
}

// A set may be removed while kernels start: when the removal returns, no kernel uses the set's agenda any more.
TEST_F(Calls, KeepASetUntilTheyHaveSubmitted) {
  on_ranks(1, [](const Rank& its) {
    const Node node = its.node("AnelloAllreduce", {kFloat});
    std::promise<void> inside, go_on;
    fake::call_before("TF_ForwardInputOrAllocateOutput", [&] {
      inside.set_value();
      go_on.get_future().wait();
    });
    std::atomic<bool> removed{false};
    std::future<Result> result;
    std::thread kernel([&] { result = node.run({ones(1), now()}); });
    inside.get_future().wait();
    std::thread remover([&] {
      anello_tensorflow_remove_process_set(its.rank);
      removed = true;
    });
    const Node size = its.node("AnelloSize", {kInt});
    while (true) {  // until the set is gone for others
      auto given = size.run({});
      if (given.get().code == kFailedPrecondition) break;
      std::this_thread::yield();
    }
    EXPECT_FALSE(removed);
    go_on.set_value();
    kernel.join();
    remover.join();
    EXPECT_THAT(elements<float>(outputs_of(result_of(result))[0]), ElementsAre(1));
    fake::call_before("TF_ForwardInputOrAllocateOutput", nullptr);
    EXPECT_EQ(run(node, {ones(1)}).code, kFailedPrecondition);
    add_set(its);
  });
}

}  // namespace
}  // namespace anello::tensorflow
