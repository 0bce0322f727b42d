// A schedule in which each of n players meets every other player once, in the minimum number of rounds, and plays at
// most once in a round: the circle method (E. Lucas, Les jeux de demoiselles, in: Recreations mathematiques 2, 1883).
// Pure.
#pragma once
#include <utility>
#include <vector>

namespace anello::launch {

using Round = std::vector<std::pair<int, int>>;  // pairs of players, the smaller number first

// Returns n - 1 rounds, or n rounds if n is odd; no rounds for fewer than two players.
std::vector<Round> tournament(int players);

}  // namespace anello::launch
