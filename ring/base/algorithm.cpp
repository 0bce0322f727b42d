#include "ring/base/algorithm.hpp"

#include <array>

namespace anello {
namespace {
constexpr std::array<std::string_view, 8> kNames = {"auto",     "ring",     "star",    "tree",
                                                    "one_shot", "two_shot", "halving", "chain"};
}

std::string_view name(Algorithm algorithm) {
  return std::size_t(algorithm) < kNames.size() ? kNames[std::size_t(algorithm)] : "?";
}
bool parse(std::string_view text, Algorithm& algorithm) {
  for (std::size_t i = 0; i < kNames.size(); i++)
    if (kNames[i] == text) return algorithm = Algorithm(i), true;
  return false;
}
std::string algorithm_names() {
  std::string names;
  for (const std::string_view each : kNames) names.append(names.empty() ? "" : ", ").append(each);
  return names;
}

}  // namespace anello
