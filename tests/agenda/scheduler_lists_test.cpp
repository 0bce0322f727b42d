// Operations that all ranks carry out as one list must give the same bits as separate operations. Each must succeed or
// fail by itself.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <tuple>

#include "ring/base/text.hpp"
#include "tests/agenda/schedulers.hpp"
#include "tests/support/random.hpp"

namespace anello::agenda {
namespace {

using testing::Each;
using testing::HasSubstr;

using Handles = std::vector<Scheduler::Handle>;

// Lets rank 0 decide all operations in one message: rank 1 reports them only after all other ranks.
Handles together(World& world, Scheduler& scheduler, const std::function<Handles(bool waits)>& submit) {
  Handles handles;
  if (world.rank() != 1) handles = submit(false);
  wait(scheduler, scheduler.submit({.verb = Verb::barrier, .name = "the others have submitted"}, true));
  if (world.rank() == 1) handles = submit(true);
  for (const Scheduler::Handle& each : handles) EXPECT_TRUE(scheduler.wait(*each));
  return handles;
}

// Submits an allreduce of each tensor, named by its number.
Handles submit_each(Scheduler& scheduler, std::vector<std::vector<float>>& tensors, bool waits) {
  Handles handles;
  for (std::size_t k = 0; k < tensors.size(); k++) {
    const std::string name = std::to_string(k);
    handles.push_back(
        scheduler.submit({.verb = Verb::allreduce, .name = name, .inputs = {view_of(tensors[k])}}, waits));
  }
  return handles;
}

std::uint64_t data_operations(Scheduler& scheduler) {
  return GroupAccess::queue(scheduler.ranks()).completed();
}

struct Kinds {
  int ranks;
  bool reproducible;
};
class ListsInWorldsOf : public testing::TestWithParam<Kinds> {
 protected:
  void run(const std::function<void(World&, Scheduler&)>& program) {
    Settings settings = Settings::from_environment();
    settings.reproducible = GetParam().reproducible;
    run_agendas(GetParam().ranks, program, settings);
  }
};
INSTANTIATE_TEST_SUITE_P(Worlds, ListsInWorldsOf,
                         testing::Values(Kinds{1, false}, Kinds{2, false}, Kinds{3, false}, Kinds{4, false},
                                         Kinds{4, true}, Kinds{6, true}),
                         [](const auto& kinds) {
                           return text(kinds.param.ranks, kinds.param.reproducible ? "Reproducible" : "");
                         });

struct Reduction {
  DType dtype;
  Op op;
  std::uint64_t elems;
  double prescale = 1, postscale = 1;
  bool in_place = true;
};

std::vector<Reduction> reductions() {
  std::vector<Reduction> all;
  for (const std::uint64_t elems : {0U, 1U, 3U, 256U, 1000U})
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::u8, DType::i64})
      for (const Op op : {Op::sum, Op::average, Op::product, Op::min, Op::max})
        if (can_reduce(dtype, op)) all.push_back({dtype, op, elems, 1, 1, elems != 3});
  for (const DType dtype : {DType::f32, DType::i32, DType::bf16}) all.push_back({dtype, Op::sum, 77, 0.3, 7, false});
  // The reductions of one list follow each other.
  std::ranges::stable_sort(all, {},
                           [](const Reduction& each) { return std::tuple(each.op, each.prescale, each.dtype); });
  return all;
}

// Finite numbers of all sizes whose sums depend on the order.
std::vector<std::byte> numbers(const Reduction& reduction, Random& random) {
  std::vector<std::byte> all(reduction.elems * size_bytes(reduction.dtype));
  for (std::uint64_t k = 0; k < reduction.elems; k++) {
    const double value = (double(random.below(2000)) - 1000) * std::exp2(double(random.below(9)) - 4) / 3;
    const auto put = [&](auto number) { std::memcpy(all.data() + k * sizeof number, &number, sizeof number); };
    if (reduction.dtype == DType::f32) put(float(value));
    if (reduction.dtype == DType::f64) put(value);
    if (reduction.dtype == DType::f16) put(f16(float(value / 100)));
    if (reduction.dtype == DType::bf16) put(bf16(float(value)));
    if (reduction.dtype == DType::i32) put(std::int32_t(value));
    if (reduction.dtype == DType::i64) put(std::int64_t(value));
    if (reduction.dtype == DType::u8) put(std::uint8_t(random.below(256)));
  }
  return all;
}

// The tensors of all reductions, and their calls.
struct Tensors {
  std::vector<std::vector<std::byte>> inputs, outputs;

  explicit Tensors(int rank) {
    Random random{std::uint64_t(rank)};
    for (const Reduction& each : reductions()) {
      inputs.push_back(numbers(each, random));
      outputs.emplace_back(inputs.back().size());
    }
  }
  NamedCall call(std::size_t k, std::string_view name) {
    const Reduction its = reductions()[k];
    NamedCall call{.verb = Verb::allreduce,
                   .name = name,
                   .inputs = {{inputs[k].data(), {its.elems}, its.dtype}},
                   .op = its.op,
                   .prescale = its.prescale,
                   .postscale = its.postscale};
    if (!its.in_place) call.outputs = {{outputs[k].data(), {its.elems}, its.dtype}};
    return call;
  }
};

TEST_P(ListsInWorldsOf, GiveTheSameBitsAsOneByOne) {
  run([](World& world, Scheduler& scheduler) {
    Tensors listed(world.rank()), alone(world.rank());
    const std::size_t all = listed.inputs.size();
    for (std::size_t k = 0; k < all; k++) wait(scheduler, scheduler.submit(alone.call(k, "alone")));
    const std::uint64_t before = data_operations(scheduler);
    EXPECT_EQ(before, all);
    together(world, scheduler, [&](bool waits) {
      Handles handles;
      for (std::size_t k = 0; k < all; k++)
        handles.push_back(scheduler.submit(listed.call(k, std::to_string(k)), waits));
      return handles;
    });
    if (world.size() > 1) {
      EXPECT_LT(data_operations(scheduler) - before, all - 20) << "there were no lists";
    }
    for (std::size_t k = 0; k < all; k++) {
      const Reduction its = reductions()[k];
      const std::string what = text(name(its.op), " of ", its.elems, " ", name(its.dtype), " by ", its.prescale);
      EXPECT_EQ(listed.inputs[k], alone.inputs[k]) << what;
      EXPECT_EQ(listed.outputs[k], alone.outputs[k]) << what;
    }
  });
}

TEST_P(ListsInWorldsOf, ManySmallOnesAreOneOperation) {
  run([](World& world, Scheduler& scheduler) {
    std::vector<std::vector<float>> tensors(64, std::vector<float>(256, float(world.rank())));
    const std::uint64_t before = data_operations(scheduler);
    together(world, scheduler, [&](bool waits) { return submit_each(scheduler, tensors, waits); });
    if (world.size() > 1) {
      EXPECT_EQ(data_operations(scheduler) - before, 1U);
    }
    const int n = world.size();
    for (const auto& tensor : tensors) EXPECT_THAT(tensor, Each(float(n * (n - 1) / 2)));
  });
}

// Submits small operations, and among them an operation of another kind, one that differs between ranks, and one with
// large tensors.
TEST_P(ListsInWorldsOf, EachOfMixedOperationsHasItsOwnEnd) {
  run([](World& world, Scheduler& scheduler) {
    if (world.size() == 1) return;
    const auto rank = float(world.rank());
    std::vector<std::vector<float>> small(12, std::vector<float>(10, rank));
    std::vector<float> sent(5, rank), large(100'000, rank), odd(world.rank() == 1 ? 4 : 3, rank);
    const Handles all = together(world, scheduler, [&](bool waits) {
      Handles handles;
      for (std::size_t k = 0; k < small.size(); k++) {
        const std::string name = text("small ", k);
        handles.push_back(
            scheduler.submit({.verb = Verb::allreduce, .name = name, .inputs = {view_of(small[k])}}, waits));
        if (k == 3)
          handles.push_back(scheduler.submit({.verb = Verb::broadcast, .inputs = {view_of(sent)}, .root = 1}, waits));
        if (k == 5)
          handles.push_back(
              scheduler.submit({.verb = Verb::allreduce, .name = "odd", .inputs = {view_of(odd)}}, waits));
        if (k == 7) handles.push_back(scheduler.submit({.verb = Verb::allreduce, .inputs = {view_of(large)}}, waits));
      }
      return handles;
    });
    std::vector<std::string> errors;
    for (const Scheduler::Handle& each : all)
      if (each->error()) errors.emplace_back(each->error()->what());
    const auto sum = float(world.size() * (world.size() - 1) / 2);
    for (const auto& tensor : small) EXPECT_THAT(tensor, Each(sum));
    EXPECT_EQ(std::ranges::count(large, sum), std::ssize(large));
    EXPECT_THAT(sent, Each(1));
    EXPECT_THAT(odd, Each(rank));
    EXPECT_THAT(errors, testing::ElementsAre(HasSubstr("allreduce 'odd': rank 0 has shape (3,), rank 1 has (4,)")));
    EXPECT_EQ(world.failure(), std::nullopt);
  });
}

// A program must not use one tensor in two operations. If it does, the other operations of the list must still have
// their results.
TEST_P(ListsInWorldsOf, ATensorOfTwoOperationsHarmsNoOther) {
  run([](World& world, Scheduler& scheduler) {
    std::vector<float> twice(100, float(world.rank())), before(10, 1), after(10, 2);
    together(world, scheduler, [&](bool waits) {
      Handles handles;
      for (auto* const tensor : {&before, &twice, &twice, &after})
        handles.push_back(scheduler.submit(
            {.verb = Verb::allreduce, .name = std::to_string(handles.size()), .inputs = {view_of(*tensor)}}, waits));
      return handles;
    });
    EXPECT_THAT(before, Each(world.size()));
    EXPECT_THAT(after, Each(2 * world.size()));
    EXPECT_EQ(world.failure(), std::nullopt);
  });
}

TEST_P(ListsInWorldsOf, JoinedRanksTakePart) {
  run([](World& world, Scheduler& scheduler) {
    if (world.size() < 3) return;
    const bool joins = world.rank() == 2;
    std::vector<std::vector<float>> tensors(8, std::vector<float>(10, 1));
    Scheduler::Handle join;
    if (joins) join = scheduler.submit({.verb = Verb::join});
    if (!joins) together(world, scheduler, [&](bool waits) { return submit_each(scheduler, tensors, waits); });
    if (!joins) join = scheduler.submit({.verb = Verb::join});
    wait(scheduler, join);
    for (const auto& tensor : tensors) EXPECT_THAT(tensor, Each(joins ? 1 : world.size() - 1));
  });
}

// While a large operation moves, small operations are submitted one by one. Rank 0 decides them together afterwards.
TEST_P(ListsInWorldsOf, SmallOnesThatWaitForALargeOneBecomeOneList) {
  run([](World& world, Scheduler& scheduler) {
    std::vector<float> large(std::size_t(1) << 20, 1);
    std::vector<std::vector<float>> tensors(40, std::vector<float>(10, 1));
    Handles handles{scheduler.submit({.verb = Verb::allreduce, .name = "large", .inputs = {view_of(large)}})};
    for (std::size_t k = 0; k < tensors.size(); k++)
      handles.push_back(
          scheduler.submit({.verb = Verb::allreduce, .name = std::to_string(k), .inputs = {view_of(tensors[k])}}));
    for (const Scheduler::Handle& each : handles) wait(scheduler, each);
    for (const auto& tensor : tensors) EXPECT_THAT(tensor, Each(world.size()));
    EXPECT_EQ(std::ranges::count(large, float(world.size())), std::ssize(large));
  });
}

// The group has only some of the world's ranks.
TEST(SchedulerLists, OfAGroup) {
  run_world(4, [](World& world) {
    const bool inside = world.rank() != 1;
    std::vector<std::vector<float>> tensors(20, std::vector<float>(10, float(world.rank())));
    if (inside) {
      const Group group = world.group({3, 0, 2});
      const auto scheduler = Scheduler::make(group);
      Handles handles;
      for (std::size_t k = 0; k < tensors.size(); k++)
        handles.push_back(
            scheduler->submit({.verb = Verb::allreduce, .name = std::to_string(k), .inputs = {view_of(tensors[k])}}));
      for (const Scheduler::Handle& each : handles) wait(*scheduler, each);
      wait(*scheduler, scheduler->submit({.verb = Verb::barrier}, true));
      scheduler->close();
    }
    for (const auto& tensor : tensors) EXPECT_THAT(tensor, Each(inside ? 5 : 1));
    world.barrier();
  });
}

}  // namespace
}  // namespace anello::agenda
