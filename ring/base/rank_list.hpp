// Ranks in words, for messages. Pure.
#pragma once
#include <string>
#include <vector>

namespace anello {

// Of ascending ranks: "ranks 0-3, 7". At most 16 ranges are listed, then ranks are only counted.
std::string rank_list(const std::vector<int>& ranks);

// "rank 2 has ", "ranks 0, 1 have ".
std::string who_has(const std::vector<int>& ranks);

}  // namespace anello
