#include "ring/base/rank_list.hpp"

#include "ring/base/text.hpp"

namespace anello {

std::string rank_list(const std::vector<int>& ranks) {
  constexpr std::size_t kMaxListed = 16;
  std::string out = ranks.size() == 1 ? "rank " : "ranks ";
  std::size_t pieces = 0;
  for (std::size_t i = 0, end = 0; i < ranks.size(); i = end) {
    for (end = i + 1; end < ranks.size() && ranks[end] == ranks[end - 1] + 1;) end++;
    const std::size_t left = ranks.size() - i;
    if (pieces == kMaxListed) return out + text(" and ", left, left == 1 ? " other" : " others");
    out += text(pieces++ == 0 ? "" : ", ", ranks[i]);
    if (end - i > 1) out += text(end - i == 2 ? ", " : "-", ranks[end - 1]);
  }
  return out;
}

std::string who_has(const std::vector<int>& ranks) {
  return rank_list(ranks) + (ranks.size() == 1 ? " has " : " have ");
}

}  // namespace anello
