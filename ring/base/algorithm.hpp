// The names of allreduce's algorithms, from the table in ring/algorithms/algorithms.def, as they are used in signatures
// and settings. The algorithms themselves are in ring/algorithms. Pure.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace anello {

// Values are part of the wire protocol.
enum class Algorithm : std::uint8_t {
  automatic = 0,  // choose() decides
#define ANELLO_ALGORITHM(name, value, ...) name = value,
#include "ring/algorithms/algorithms.def"
};

// "auto|ring|star|...", for help.
inline constexpr std::string_view kAlgorithmChoices = "auto"
#define ANELLO_ALGORITHM(name, ...) "|" #name
#define ANELLO_LEVELS(name, ...) "|" #name "+NAME"
#include "ring/algorithms/algorithms.def"
    ;

// All one-level algorithms in the table's order, without `automatic`.
std::span<const Algorithm> all_algorithms();

// How an algorithm uses hosts with several ranks: `one` ignores hosts; all other values mean two levels.
enum class Levels : std::uint8_t {
  one = 0,
#define ANELLO_LEVELS(name, value, ...) name = value,
#include "ring/algorithms/algorithms.def"
};
std::span<const Levels> all_levels();  // all values except `one`, in the table's order

// A two-level algorithm has its own value, made from its levels and its algorithm between hosts.
constexpr Algorithm in_levels(Levels levels, Algorithm between_hosts) {
  return Algorithm(unsigned(levels) << 4 | unsigned(between_hosts));
}
constexpr Levels levels_of(Algorithm algorithm) {
  return Levels(unsigned(algorithm) >> 4);
}
constexpr Algorithm between_hosts(Algorithm algorithm) {
  return Algorithm(unsigned(algorithm) & 15);
}

// Returns "ring" or "shares+ring", for example; "auto" for automatic; "?" if no algorithm has this value.
std::string_view name(Algorithm algorithm);
bool parse(std::string_view text, Algorithm& algorithm);
std::string algorithm_names();  // "auto, ring, star, ...", for error messages

// True if every element is ((x0 + x1) + x2) + ..., for every size, slab and placement of ranks. `narrow`: elements are
// sent in a narrower type; then the sum is of the rounded contributions, and is rounded once. False for `automatic`.
bool reproducible(Algorithm algorithm, bool narrow = false);

}  // namespace anello
