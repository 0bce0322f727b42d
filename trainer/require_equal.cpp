#include "trainer/require_equal.hpp"

#include <algorithm>
#include <numeric>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "trainer/hash.hpp"

namespace anello::trainer {
namespace {

// Each option with its value and a newline, of every rank; equal on all ranks.
std::vector<std::string> options_of_all(World& world, const Facts& options) {
  std::string own;
  for (const auto& [option, value] : options) own += option + " " + value + "\n";
  const std::uint64_t length = own.size();
  std::vector<std::uint64_t> lengths(std::size_t(world.size()));
  world.allgather(std::span(&length, 1), lengths, {.name = "training options"});
  std::string all(std::accumulate(lengths.begin(), lengths.end(), std::size_t(0)), '\0');
  const auto bytes = [](std::string& text) {
    return std::span(reinterpret_cast<std::uint8_t*>(text.data()), text.size());
  };
  world.allgather(bytes(own), bytes(all), {.name = "training options", .counts = lengths});
  std::vector<std::string> by_rank;
  for (std::size_t rank = 0, at = 0; rank < lengths.size(); at += lengths[rank++])
    by_rank.push_back(all.substr(at, lengths[rank]));
  return by_rank;
}

// "rank 3 (h1)", "ranks 1 (h0), 3 (h1) and 12 more"
std::string list_of(const World& world, const std::vector<int>& ranks) {
  constexpr std::size_t kNamed = 4;
  std::string list = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < std::min(ranks.size(), kNamed); i++)
    list += (i == 0 ? "" : ", ") + std::to_string(ranks[i]) + " (" + world.host(ranks[i]) + ")";
  return ranks.size() > kNamed ? list + " and " + std::to_string(ranks.size() - kNamed) + " more" : list;
}

// The lines of `a` that `b` does not have at the same place: "--seed 2 and --lr 0.1".
std::string only_in(const std::string& a, const std::string& b) {
  std::istringstream lines(a), others(b);
  std::string only;
  for (std::string line, other; std::getline(lines, line);)
    if (!std::getline(others, other) || line != other) only += (only.empty() ? "" : " and ") + line;
  return only;
}

}  // namespace

void require_equal(World& world, const Facts& options) {
  const std::vector<std::string> all = options_of_all(world, options);
  const auto other = std::find_if(all.begin(), all.end(), [&](const std::string& each) { return each != all[0]; });
  if (other == all.end()) return;
  std::vector<int> ranks;
  for (int rank = 0; rank < world.size(); rank++)
    if (all[std::size_t(rank)] == *other) ranks.push_back(rank);
  throw Error(ErrorCode::mismatch,
              "training options differ: " + list_of(world, ranks) + (ranks.size() == 1 ? " has " : " have ") +
                  only_in(*other, all[0]) + ", rank 0 (" + world.host(0) + ") has " + only_in(all[0], *other) +
                  "; give all ranks the same",
              ranks[0]);
}

void require_equal(World& world, std::uint64_t value, std::string_view what) {
  const auto own = std::int64_t(value);
  std::vector<std::int64_t> all(std::size_t(world.size()));
  world.allgather(std::span(&own, 1), all, {.name = what});
  for (int rank = 1; rank < world.size(); rank++)
    if (all[std::size_t(rank)] != all[0])
      throw Error(ErrorCode::mismatch,
                  std::string(what) + " of rank " + std::to_string(rank) + " (" + world.host(rank) +
                      ") differ from those of rank 0 (" + world.host(0) + "): " +
                      hex(std::uint64_t(all[std::size_t(rank)])) + " there, " + hex(std::uint64_t(all[0])) + " here",
                  rank);
}

}  // namespace anello::trainer
