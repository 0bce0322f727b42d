#include "ring/base/algorithm.hpp"

#include <algorithm>
#include <array>

namespace anello {
namespace {

constexpr std::array kAll = {
#define ANELLO_ALGORITHM(name, ...) Algorithm::name,
#include "ring/algorithms/algorithms.def"
};
constexpr std::array kAllLevels = {
#define ANELLO_LEVELS(name, ...) Levels::name,
#include "ring/algorithms/algorithms.def"
};

constexpr std::string_view name_of_one_level(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::automatic:
      return "auto";
#define ANELLO_ALGORITHM(name, ...) \
  case Algorithm::name:             \
    return #name;
#include "ring/algorithms/algorithms.def"
  }
  return "?";
}

constexpr std::string_view prefix(Levels levels) {
  switch (levels) {
    case Levels::one:
      return "";
#define ANELLO_LEVELS(name, ...) \
  case Levels::name:             \
    return #name "+";
#include "ring/algorithms/algorithms.def"
  }
  return "?";
}

// A two-level algorithm with its name. name() returns a view of the name's letters, so the table of these objects is
// static.
struct Named {
  Algorithm algorithm = Algorithm::automatic;
  std::array<char, 40> letters{};
  std::size_t size = 0;

  constexpr std::string_view text() const { return {letters.data(), size}; }
};

constexpr auto kOfTwoLevels = [] {
  std::array<Named, kAllLevels.size() * kAll.size()> all;
  auto next = all.begin();
  for (const Levels levels : kAllLevels)
    for (const Algorithm each : kAll) {
      next->algorithm = in_levels(levels, each);
      for (const std::string_view part : {prefix(levels), name_of_one_level(each)})
        for (const char letter : part) next->letters.at(next->size++) = letter;
      ++next;
    }
  return all;
}();

}  // namespace

std::span<const Algorithm> all_algorithms() {
  return kAll;
}

std::span<const Levels> all_levels() {
  return kAllLevels;
}

std::string_view name(Algorithm algorithm) {
  if (levels_of(algorithm) == Levels::one) return name_of_one_level(algorithm);
  const auto found = std::ranges::find(kOfTwoLevels, algorithm, &Named::algorithm);
  return found == kOfTwoLevels.end() ? "?" : found->text();
}

bool parse(std::string_view text, Algorithm& algorithm) {
  if (text == name(Algorithm::automatic)) return algorithm = Algorithm::automatic, true;
  if (const auto found = std::ranges::find(kAll, text, name_of_one_level); found != kAll.end())
    return algorithm = *found, true;
  const auto found = std::ranges::find(kOfTwoLevels, text, &Named::text);
  return found != kOfTwoLevels.end() && (algorithm = found->algorithm, true);
}

std::string algorithm_names() {
  std::string names(name(Algorithm::automatic));
  for (const Algorithm each : kAll) names.append(", ").append(name(each));
  names.append("; if hosts have several ranks, also");
  for (const Levels each : kAllLevels)
    names.append(each == kAllLevels[0] ? " " : " or ").append(prefix(each)).append("NAME");
  return names.append(" with one of these names");
}

bool reproducible(Algorithm algorithm, bool narrow) {
  switch (algorithm) {
    case Algorithm::automatic:
      return false;
#define ANELLO_ALGORITHM(name, value, rank_order, rank_order_if_narrow, ...) \
  case Algorithm::name:                                                      \
    return narrow ? rank_order_if_narrow : rank_order;
#include "ring/algorithms/algorithms.def"
  }
  return false;
}

}  // namespace anello
