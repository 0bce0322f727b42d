#include "ring/base/algorithm.hpp"

#include <algorithm>
#include <array>

namespace anello {
namespace {

constexpr std::array kAll = {
#define ANELLO_ALGORITHM(name, ...) Algorithm::name,
#include "ring/algorithms/algorithms.def"
};

}  // namespace

std::span<const Algorithm> all_algorithms() {
  return kAll;
}

std::string_view name(Algorithm algorithm) {
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

bool parse(std::string_view text, Algorithm& algorithm) {
  if (text == name(Algorithm::automatic)) return algorithm = Algorithm::automatic, true;
  const auto found = std::ranges::find(kAll, text, [](Algorithm each) { return name(each); });
  return found != kAll.end() && (algorithm = *found, true);
}

std::string algorithm_names() {
  std::string names(name(Algorithm::automatic));
  for (const Algorithm each : kAll) names.append(", ").append(name(each));
  return names;
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
