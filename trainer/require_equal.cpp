#include "trainer/require_equal.hpp"

#include <algorithm>
#include <anello/camps.hpp>
#include <map>
#include <numeric>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "trainer/hash.hpp"

namespace anello::trainer {
namespace {

// Returns the texts of all ranks, by rank. The result is equal on all ranks.
std::map<int, std::string> texts_of_all(World& world, std::string own, std::string_view name) {
  const std::uint64_t length = own.size();
  std::vector<std::uint64_t> lengths(std::size_t(world.size()));
  world.allgather(std::span(&length, 1), lengths, {.name = name});
  std::string all(std::accumulate(lengths.begin(), lengths.end(), std::size_t(0)), '\0');
  const auto bytes = [](std::string& text) {
    return std::span(reinterpret_cast<std::uint8_t*>(text.data()), text.size());
  };
  world.allgather(bytes(own), bytes(all), {.name = name, .counts = lengths});
  std::map<int, std::string> by_rank;
  for (std::size_t rank = 0, at = 0; rank < lengths.size(); at += lengths[rank++])
    by_rank[int(rank)] = all.substr(at, lengths[rank]);
  return by_rank;
}

// Returns a text such as "rank 3 (h1)", or "ranks 1 (h0), 3 (h1) and 12 more".
std::string list_of(const World& world, const std::vector<int>& ranks) {
  constexpr std::size_t kNamed = 4;
  std::string list = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < std::min(ranks.size(), kNamed); i++)
    list += (i == 0 ? "" : ", ") + std::to_string(ranks[i]) + " (" + world.host(ranks[i]) + ")";
  return ranks.size() > kNamed ? list + " and " + std::to_string(ranks.size() - kNamed) + " more" : list;
}

// Returns the lines of `a` that differ from the line at the same position in `b`: "--seed 2 and --lr 0.1".
std::string only_in(const std::string& a, const std::string& b) {
  std::istringstream lines(a), others(b);
  std::string only;
  for (std::string line, other; std::getline(lines, line);)
    if (!std::getline(others, other) || line != other) only += (only.empty() ? "" : " and ") + line;
  return only;
}

void require_equal_lines(World& world, const std::string& own, std::string_view what, std::string_view remedy) {
  const std::vector<Camp<std::string>> all = camps(texts_of_all(world, own, what));
  if (all.size() < 2) return;
  const Camp<std::string>&usual = all[0], &odd = odd_camp(all, std::size_t(world.size()));
  const auto have = [&](const Camp<std::string>& some, const Camp<std::string>& others) {
    return list_of(world, some.ranks) + (some.ranks.size() == 1 ? " has " : " have ") +
           only_in(some.value, others.value);
  };
  throw Error(ErrorCode::mismatch,
              std::string(what) + " differ: " + have(odd, usual) + ", " + have(usual, odd) + std::string(remedy),
              rank_at_fault(all, std::size_t(world.size())));
}

}  // namespace

void require_equal(World& world, const Facts& options) {
  std::string lines;
  for (const auto& [option, value] : options) lines += option + " " + value + "\n";
  require_equal_lines(world, lines, "training options", "; give all ranks the same");
}

void require_equal(World& world, std::uint64_t value, std::string_view what) {
  require_equal_lines(world, hex(value), what, "");
}

}  // namespace anello::trainer
