// Ranks whose states outlive their worlds. Each world of a test has some of these ranks.
#pragma once
#include <gtest/gtest.h>

#include <anello/elastic_state.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ring/elastic/contents.hpp"
#include "ring/elastic/synchronize.hpp"
#include "tests/support/worlds.hpp"

namespace anello::elastic {

inline constexpr std::uint64_t kMessages = 4096;  // more bytes than the reports and the hashes have

struct Rank {
  explicit Rank(int value, std::size_t large = 1000)
      : weights(large, std::byte(value)), bias(1, std::byte(value)), step(value) {
    state.add("weights", weights);
    state.add("nothing", {});
    state.add("bias", bias);
    state.add_small(
        "step", [this] { return std::to_string(step); },
        [this](std::string_view text) { step = std::stoi(std::string(text)); });
  }

  // Turns this rank into a rank that had the complete state when an earlier world ended.
  Rank& held(std::uint64_t revision) {
    StateAccess::contents(state).settle(revision);
    return *this;
  }
  // Turns this rank into a rank that was in the middle of a commit or a transfer when an earlier world ended.
  Rank& unclean() {
    StateAccess::contents(state).clean = false;
    return *this;
  }
  void expect(int value, std::uint64_t revision) const {
    EXPECT_EQ(weights, std::vector(weights.size(), std::byte(value)));
    EXPECT_EQ(bias, std::vector(1, std::byte(value)));
    EXPECT_EQ(step, value);
    EXPECT_EQ(state.revision(), revision);
    EXPECT_TRUE(state.holds());
    EXPECT_TRUE(state.clean());
  }

  std::vector<std::byte> weights, bias;
  int step;
  State state;
  Synchronized result;  // of the newest synchronization
  Counters counters;    // at the end of that synchronization
};

using Ranks = std::vector<std::unique_ptr<Rank>>;

template <class... Made>
Ranks ranks(Made&&... made) {
  Ranks all;
  (all.push_back(std::forward<Made>(made)), ...);
  return all;
}
inline std::unique_ptr<Rank> newcomer(int value, std::size_t large = 1000) {
  return std::make_unique<Rank>(value, large);
}
inline std::unique_ptr<Rank> holder(int value, std::uint64_t revision, std::size_t large = 1000) {
  auto rank = newcomer(value, large);
  rank->held(revision);
  return rank;
}

// Makes a world of these ranks, in this order, and lets them synchronize. Returns their errors.
inline std::vector<std::optional<Error>> synchronize(const Ranks& all, bool begun, bool verify = true) {
  std::vector<std::optional<Error>> errors;
  const auto told = told_on_all_ranks(int(all.size()), [&](World& world) {
    Rank& rank = *all[std::size_t(world.rank())];
    rank.result = synchronize(world, rank.state, begun, verify);
    rank.counters = world.counters();
  });
  for (const Told& each : told) errors.push_back(each.error);
  return errors;
}

inline void expect_in_order(const std::vector<std::optional<Error>>& errors) {
  for (const auto& error : errors) EXPECT_FALSE(error) << error->what();
}

}  // namespace anello::elastic
