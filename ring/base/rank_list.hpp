// Formats ranks in words, for error messages. Pure.
#pragma once
#include <string>
#include <vector>

namespace anello {

// Formats ascending ranks: "ranks 0-3, 7". Lists at most 16 ranges, then only the number of the remaining ranks.
std::string rank_list(const std::vector<int>& ranks);

// Returns "rank 2 has " or "ranks 0, 1 have ".
std::string who_has(const std::vector<int>& ranks);

}  // namespace anello
