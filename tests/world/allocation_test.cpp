// A repeated collective allocates nothing, on any thread of the process.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <optional>

#include "tests/support/operator_new.hpp"
#include "tests/support/worlds.hpp"

namespace {
std::atomic<std::uint64_t> allocations = 0;
}  // namespace

void before_allocation(std::size_t) {
  allocations.fetch_add(1, std::memory_order_relaxed);
}

namespace anello::world {
namespace {

struct Buffers {
  std::vector<float> small = std::vector<float>(1200), large = std::vector<float>(4800), other = small;
  std::vector<Tensor> list;
  std::vector<std::uint64_t> counts;
  std::array<Work, 8> works;
  bool warm = false;
};

using Call = std::function<void(Group&, Buffers&)>;

// The allocations of the whole process while all ranks repeat the call.
struct Trial {
  std::uint64_t allocations = 0;
  bool stalled = false;  // a call took so long that it was reported to the other ranks, and the report allocates memory
};
Trial try_call(const Call& call, int times) {
  using Clock = std::chrono::steady_clock;
  constexpr int kWarm = 20, kRanks = 4;
  constexpr std::chrono::milliseconds kLong{150};  // a stall is reported after 200 ms
  std::atomic<std::uint64_t> counted = 0;
  std::atomic<bool> stalled = false;
  run_world(kRanks, [&](World& world) {
    Buffers buffers;
    buffers.list = {Tensor(buffers.small), Tensor(buffers.other)};
    buffers.counts = {600, 0, 300, 300};
    for (int k = 0; k < kWarm; k++) call(world, buffers);
    buffers.warm = true;
    world.barrier();
    world.barrier();
    const std::uint64_t before = allocations;
    for (int k = 0; k <= times; k++) {
      const auto began = Clock::now();
      if (k < times)
        call(world, buffers);
      else
        world.barrier();
      if (Clock::now() - began > kLong) stalled = true;
    }
    counted += allocations - before;
    world.barrier();
  });
  return {counted, stalled};
}

// Returns the number of allocations of a call. On a busy machine calls may stall; then the trial is repeated with fewer
// calls. Returns nothing if every trial has stalled. The background thread allocates memory for its heartbeats, but not
// in every trial. The allocations of a call occur in every trial.
std::optional<std::uint64_t> allocations_of(const Call& call) {
  constexpr int kTrials = 30, kEnough = 5;
  int calm = 0;
  for (int trial = 0; trial < kTrials; trial++) {
    const Trial result = try_call(call, trial < 4 ? 200 : 20);
    if (result.allocations == 0 || (!result.stalled && ++calm == kEnough)) return result.allocations;
  }
  return std::nullopt;
}

TEST(Allocations, ThereAreNoneInCallsThatBlock) {
  const std::vector<std::pair<const char*, Call>> calls = {
      {"allreduce", [](Group& g, Buffers& b) { g.allreduce(b.small); }},
      {"large allreduce", [](Group& g, Buffers& b) { g.allreduce(b.large, Op::average, {.wire = DType::bf16}); }},
      {"scaled", [](Group& g, Buffers& b) { g.allreduce(b.small, b.other, Op::sum, {.prescale = 2, .postscale = 3}); }},
      {"a list", [](Group& g, Buffers& b) { g.allreduce(b.list); }},
      {"reduce", [](Group& g, Buffers& b) { g.reduce(b.small, 1); }},
      {"broadcast", [](Group& g, Buffers& b) { g.broadcast(b.small, 2); }},
      {"allgather", [](Group& g, Buffers& b) { g.allgather(b.small, b.large); }},
      {"reduce_scatter", [](Group& g, Buffers& b) { g.reduce_scatter(b.large, b.small); }},
      {"alltoall", [](Group& g, Buffers& b) { g.alltoall(b.small, b.other); }},
      {"gather", [](Group& g, Buffers& b) { g.gather(b.small, b.large, 0); }},
      {"unequal parts",
       [](Group& g, Buffers& b) {
         const std::span<float> own = std::span(b.small).first(b.counts[std::size_t(g.rank())]);
         g.scatter(std::span(b.large).first(1200), own, 3, {.counts = b.counts});
       }},
      {"unequal parts for all",
       [](Group& g, Buffers& b) {
         const std::span<float> own = std::span(b.small).first(4 * b.counts[std::size_t(g.rank())] / 4);
         std::array<std::uint64_t, 4> out{}, in{};
         for (std::size_t k = 0; k < 4; k++) {
           out[k] = own.size() / 4;
           in[k] = b.counts[k] / 4;
         }
         g.alltoall(own, std::span(b.other).first(300), out, in);
       }},
      {"barrier", [](Group& g, Buffers&) { g.barrier(); }},
      {"two in turn",
       [](Group& g, Buffers& b) {
         g.allreduce(b.small);
         g.broadcast(b.large, 0);
       }},
  };
  for (const auto& [what, call] : calls) {
    const auto count = allocations_of(call);
    if (!count) GTEST_SKIP() << "the machine is too busy";
    EXPECT_EQ(*count, 0U) << what;
  }
}

// On a busy machine, the progress thread may still hold an operation that is done. Then the next call takes another
// operation from the pool.
TEST(Allocations, ThereAreNoneInAsynchronousWork) {
  const auto count = allocations_of([](Group& g, Buffers& b) {
    const std::span<Work> works = std::span(b.works).first(b.warm ? 1 : b.works.size());
    for (Work& work : works) work = g.allreduce_async(b.small);
    for (Work& work : works) work.wait();
  });
  if (!count) GTEST_SKIP() << "the machine is too busy";
  EXPECT_EQ(*count, 0U);
}

// Shows that allocations are counted.
TEST(Allocations, AreSeen) {
  const Call call = [](Group& g, Buffers& b) { g.allreduce(b.small = std::vector<float>(1200)); };
  EXPECT_GE(try_call(call, 200).allocations, 200U);
}

}  // namespace
}  // namespace anello::world
