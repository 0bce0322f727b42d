// Tests of the ops: the ops are registered with a fake TensorFlow, and ranks are threads. Each rank has an agenda,
// which is the process set with the rank's number.
#pragma once
#include <gmock/gmock.h>

#include <chrono>
#include <mutex>
#include <numeric>
#include <stdexcept>

#include "rendezvous/c_api/handles.hpp"
#include "tests/support/worlds.hpp"
#include "tests/tensorflow/fake_tensorflow.hpp"
#include "trainer/python/tensorflow/library.hpp"
#include "trainer/python/tensorflow/process_sets.hpp"

namespace anello::tensorflow {

using fake::elements;
using fake::Node;
using fake::Result;
using fake::value;
using fake::Value;

constexpr int kFloat = fake::kTypeOf<float>, kInt = fake::kTypeOf<int32_t>, kLong = fake::kTypeOf<int64_t>;
constexpr int kInvalidArgument = 3, kResourceExhausted = 8, kFailedPrecondition = 9, kInternalError = 13;
constexpr const char* kNotRegistered =
    "the operation's process set is not registered: give it to init() or add_process_set(); if the set was "
    "removed, build its functions again";
constexpr std::chrono::minutes kAtMost{5};  // limit for events that must happen, on a busy machine with sanitizers

class WithOps : public testing::Test {
 protected:
  void SetUp() override {
    fake::begin();
    ASSERT_EQ(register_ops(fake::look_up), "");
  }
  void TearDown() override {
    anello_tensorflow_end_world();
    EXPECT_EQ(fake::living(), 0);
  }
};

// One rank, in its thread.
struct Rank {
  int rank, size;
  anello_agenda* agenda;
  anello::World& world;

  // A node of this rank.
  Node node(const std::string& op, std::vector<int> types, std::map<std::string, fake::Attribute> attributes = {},
            const std::string& name = "") const {
    attributes["process_set"] = rank;
    if (fake::ops().at(op).attributes.contains("distinct")) attributes["distinct"] = "of " + name;
    return Node(op, name.empty() ? op : name, std::move(attributes), std::move(types));
  }
};

// The value of the input `now`.
inline Value now() {
  return value<int32_t>({}, {0});
}

inline Result result_of(std::future<Result>& future) {
  if (future.wait_for(kAtMost) != std::future_status::ready) {
    ADD_FAILURE() << "a kernel did not end";
    std::abort();  // otherwise the node would write to memory that is about to be freed
  }
  return future.get();
}

// Runs a node to its end, with `now` as the last input.
inline Result run(const Node& node, std::vector<Value> inputs) {
  inputs.push_back(now());
  auto future = node.run(std::move(inputs));
  return result_of(future);
}

inline std::vector<Value> outputs_of(Result result) {
  if (result.code != 0) throw std::runtime_error("a kernel has failed: " + result.message);
  return std::move(result.outputs);
}

// Registers a rank's agenda under its number. The library has only one world, the world of the process.
inline void add_set(const Rank& its, const std::vector<int>& members) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  anello_tensorflow_begin_world(its.rank, its.world.size(), its.rank, its.world.size());
  anello_tensorflow_add_process_set(its.rank, its.agenda, int(members.size()), members.data());
}
inline void add_set(const Rank& its) {
  std::vector<int> all(std::size_t(its.world.size()));
  std::iota(all.begin(), all.end(), 0);
  add_set(its, all);
}

inline void on_ranks(int ranks, const std::function<void(const Rank&)>& program) {
  run_world(ranks, [&](anello::World& world) {
    anello_group group{world};
    Rank its{world.rank(), world.size(), nullptr, world};
    ASSERT_EQ(anello_agenda_create(&group, &its.agenda), ANELLO_OK);
    add_set(its);
    program(its);
    const Node barrier = its.node("AnelloBarrier", {}, {}, "end of test");
    auto passed = barrier.run({});
    EXPECT_EQ(result_of(passed).message, "");
    anello_tensorflow_remove_process_set(its.rank);
    anello_agenda_free(its.agenda);
  });
}

}  // namespace anello::tensorflow
