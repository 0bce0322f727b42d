#include "rendezvous/launch/doctor/tournament.hpp"

#include <algorithm>

namespace anello::launch {

// After each round, all players except the last move to the next seat. If n is odd, the last seat is empty.
std::vector<Round> tournament(int players) {
  std::vector<Round> rounds;
  if (players < 2) return rounds;
  const int seats = players + players % 2, moving = seats - 1;
  for (int round = 0; round < moving; round++) {
    Round pairs;
    for (int seat = 0; seat < seats / 2; seat++) {
      const int one = seat == 0 ? moving : (round + seat) % moving;
      const int other = (round - seat + moving) % moving;
      if (std::max(one, other) < players) pairs.emplace_back(std::minmax(one, other));
    }
    rounds.push_back(std::move(pairs));
  }
  return rounds;
}

}  // namespace anello::launch
