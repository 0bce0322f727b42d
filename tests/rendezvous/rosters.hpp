// Rosters with ranks in them, for tests.
#pragma once
#include <gtest/gtest.h>

#include "rendezvous/server/roster.hpp"
#include "tests/rendezvous/joins.hpp"

namespace anello::rendezvous {

inline constexpr Roster::Time kStart{};
inline constexpr std::chrono::milliseconds kPatience{60000};

inline const Failed& failure(const Roster::Sends& sends) {
  static const Failed none{ErrorCode{}, -1, "no failure"};
  return sends.size() == 1 && std::holds_alternative<Failed>(sends[0].reply) ? std::get<Failed>(sends[0].reply) : none;
}
// Lets ranks 0 to size-1 of one host join; the last one completes the world.
inline Roster::Sends form(Roster& roster, int size) {
  for (int i = 0; i + 1 < size; i++) EXPECT_TRUE(roster.joined(unsigned(i), on("a", -1, size), kStart).empty());
  return roster.joined(unsigned(size - 1), on("a", -1, size), kStart);
}

}  // namespace anello::rendezvous
