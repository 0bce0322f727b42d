// States that several ranks send in parts. The value of each byte depends on its place. stripes_test.cpp covers all
// numbers of ranks.
#include "ring/elastic/transfer.hpp"

#include <gmock/gmock.h>

#include <memory>
#include <thread>

#include "ring/elastic/stripes.hpp"
#include "tests/elastic/ranks.hpp"
#include "tests/support/hosts.hpp"

namespace anello::elastic {
namespace {

std::byte byte_at(std::size_t entry, std::size_t at) {
  return std::byte((entry * 1000003 + at * 2654435761U) >> 13);
}

// A rank with entries of these sizes.
struct Member {
  Member(const std::vector<std::size_t>& sizes, bool is_source) {
    for (const std::size_t size : sizes) {
      const std::size_t number = entries.size();
      std::vector<std::byte>& entry = entries.emplace_back(size);
      for (std::size_t at = 0; is_source && at < size; at++) entry[at] = byte_at(number, at);
    }
    for (std::size_t entry = 0; entry < entries.size(); entry++)
      state.add("entry " + std::to_string(entry), entries[entry]);
    if (is_source) StateAccess::contents(state).settle(5);
  }
  bool is_right() const {
    for (std::size_t entry = 0; entry < entries.size(); entry++)
      for (std::size_t at = 0; at < entries[entry].size(); at++)
        if (entries[entry][at] != byte_at(entry, at)) return false;
    return state.clean() && state.holds() && state.revision() == 5;
  }

  std::vector<std::vector<std::byte>> entries;
  State state;
  Counters counters;
};

using Members = std::vector<std::unique_ptr<Member>>;

Members make(const std::vector<bool>& is_source, const std::vector<std::size_t>& sizes) {
  Members all;
  for (const bool each : is_source) all.push_back(std::make_unique<Member>(sizes, each));
  return all;
}

void take_part(World& world, const Members& all) {
  Member& its = *all[std::size_t(world.rank())];
  synchronize(world, its.state, true);
  its.counters = world.counters();
}

Members synchronize_striped(const std::vector<bool>& is_source, const std::vector<std::size_t>& sizes) {
  Members all = make(is_source, sizes);
  for (const Told& told : told_on_all_ranks(int(all.size()), [&](World& world) { take_part(world, all); }))
    EXPECT_FALSE(told.error) << told.error->what();
  for (const auto& each : all) EXPECT_TRUE(each->is_right());
  return all;
}

TEST(Transfer, AnyNumbersOfSourcesAndNewcomers) {
  for (int sources = 1; sources <= 8; sources++) {
    const int newcomers = 1 + sources % 4;
    SCOPED_TRACE(testing::Message() << sources << " sources, " << newcomers << " newcomers");
    std::vector<bool> is_source(std::size_t(sources), true);
    for (int k = 0; k < newcomers; k++) is_source.insert(is_source.begin() + (2 * k) % (sources + k), false);
    synchronize_striped(is_source, {3 * kStripeBlock + 7, 0, 1, kStripeBlock - 1});
  }
}

TEST(Transfer, AnySize) {
  for (const std::size_t size :
       {std::size_t(0), std::size_t(1), std::size_t(3), std::size_t(kStripeBlock) - 1, std::size_t(kStripeBlock),
        std::size_t(kStripeBlock) + 1, std::size_t(3 * kStripeBlock), std::size_t(10'000'019)}) {
    SCOPED_TRACE(testing::Message() << size << " bytes");
    synchronize_striped({true, false, true, true}, {size});
  }
}

TEST(Transfer, AStateWithoutEntries) {
  synchronize_striped({true, true, false}, {});
}

TEST(Transfer, ManySmallTensors) {
  std::vector<std::size_t> sizes;
  for (std::size_t k = 0; k < 5000; k++) sizes.push_back(k * 7919 % 401);
  synchronize_striped({false, true, true, true}, sizes);
}

TEST(Transfer, EachSourceSendsAnEqualPartAndReceivesNothing) {
  constexpr std::size_t kBytes = 16 * kStripeBlock;
  const Members all = synchronize_striped({true, true, true, true, false}, {kBytes});
  for (const int source : {0, 1, 2, 3}) {
    const Counters& counted = all[std::size_t(source)]->counters;
    EXPECT_GE(counted.sent_bytes, kBytes / 4);
    EXPECT_LT(counted.sent_bytes, kBytes / 4 + kMessages);
    EXPECT_LT(counted.received_bytes, kMessages);
  }
}

// One source is slow. The other ranks wait for it, however late it is.
TEST(Transfer, ASlowSource) {
  const Members all = make({true, true, false, true}, {16 * kStripeBlock});
  for (const Told& told : told_on_all_ranks(4, [&](World& world) {
         if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
         take_part(world, all);
       }))
    EXPECT_FALSE(told.error) << told.error->what();
  for (const auto& each : all) EXPECT_TRUE(each->is_right());
}

// Host 0 has a source and two receivers, host 1 a source, host 2 a receiver.
TEST(Transfer, GoesFromMemoryToMemoryWhereAHostHasASource) {
  constexpr std::size_t kBytes = 16 * kStripeBlock;
  const Members all = make({true, false, false, true, false}, {kBytes});
  run_on({"3, 1 and 1", {0, 0, 0, 1, 2}}, [&](World& world) { take_part(world, all); });
  for (const auto& each : all) EXPECT_TRUE(each->is_right());
  EXPECT_GE(all[0]->counters.sent_bytes, kBytes + kBytes / 2) << "all of what ranks 1 and 2 get, and half of rank 4's";
  EXPECT_GE(all[3]->counters.sent_bytes, kBytes / 2);
  EXPECT_LT(all[3]->counters.sent_bytes, kBytes / 2 + kMessages) << "half of what rank 4 gets";
}

}  // namespace
}  // namespace anello::elastic
