// A rank that cannot start a thread, or has no memory, while it makes a GpuGroup: the others must not be left waiting.
#include <gmock/gmock.h>

#include <anello/error.hpp>

#include "tests/gpu/gpus_of.hpp"
#include "tests/support/faults.hpp"
#include "tests/support/worlds.hpp"

namespace anello {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr int kPoor = 1;

struct Outcome {
  std::vector<Told> told;
  std::vector<std::string> ways = std::vector<std::string>(2);  // by rank: its description of its group
};

// No thread can be started after a rank has looked for NCCL. Before that, the fake GPU must start some threads.
const AnelloGpuTable& table_without_threads() {
  static const AnelloGpuTable table = [] {
    AnelloGpuTable its = fake::table();
    its.nccl = [](const char** why_not) {
      faults::plan({.thread = 0, .for_ever = true});
      return fake::table().nccl(why_not);
    };
    return its;
  }();
  return table;
}

Outcome without_threads(const std::string& backend) {
  Outcome outcome;
  outcome.told = told_on_all_ranks(2, [&](World& world) {
    Choice choice{.backend = backend};
    choice.nccl.start = milliseconds(500);  // the others wait for this rank inside NCCL
    const GpuGroup gpus = gpus_of(world, choice, [&] {
      return GpuGroupAccess::Impl::Tables{world.rank() == kPoor ? &table_without_threads() : &fake::table()};
    });
    outcome.ways[std::size_t(world.rank())] = text(gpus.backend(), ": ", gpus.reason());
    world.barrier();
  });
  return outcome;
}

TEST(GpuScarcity, WithoutAThreadForNcclTensorsAreStaged) {
  const Outcome outcome = without_threads("auto");
  for (const std::string& way : outcome.ways) EXPECT_THAT(way, HasSubstr("staged: NCCL does not start on rank "));
  EXPECT_EQ(fake::nccl_alive(), 0);
}

TEST(GpuScarcity, WithoutAThreadForNcclThatIsAskedForTheWorldEnds) {
  const Outcome outcome = without_threads("nccl");
  for (const Told& told : outcome.told) {
    ASSERT_TRUE(told.error) << told.rank;
    EXPECT_EQ(told.error->rank(), kPoor) << told.error->what();
    EXPECT_THAT(told.error->what(), HasSubstr("no thread for watching NCCL: "));
  }
  EXPECT_EQ(fake::nccl_alive(), 0);
}

bool fails_while_the_group_is_made(const std::string& backend, const faults::Plan& plan) {
  bool happened = false;
  const std::vector<Told> all = told_on_all_ranks(2, [&](World& world) {
    Choice choice{.backend = backend};
    choice.nccl.start = choice.nccl.end = milliseconds(500);
    try {
      const GpuGroup gpus = gpus_of(world, choice, [&] {
        if (world.rank() == kPoor) faults::plan(plan);
        return load();
      });
      if (world.rank() == kPoor) happened = faults::plan({});
    } catch (const std::bad_alloc&) {
      happened = faults::plan({});
      EXPECT_TRUE(world.failure());
    } catch (const Error&) {
      if (world.rank() == kPoor) happened = faults::plan({});
      throw;
    }
    world.barrier();
  });
  for (const Told& told : all) {
    EXPECT_EQ(told.error.has_value(), happened) << told.rank;
    if (!told.error) continue;
    EXPECT_EQ(told.error->rank(), kPoor) << told.error->what();
  }
  return happened;
}

TEST(GpuScarcity, WithoutMemoryForTheGroupNoRankWaits) {
  for (const auto& [backend, stride] : {std::pair("auto", 1), std::pair("nccl", 5)}) {
    int place = 0;
    while (fails_while_the_group_is_made(backend, {.memory = place, .for_ever = true})) place += stride;
    EXPECT_GT(place, 100);
    EXPECT_EQ(fake::nccl_alive(), 0);
  }
}

}  // namespace
}  // namespace anello
