// The algorithms of allreduce by name, from the table in ring/algorithms/algorithms.def: what travels in signatures and
// stands in settings. What each algorithm does is in ring/algorithms. Pure.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace anello {

// Values are part of the wire protocol.
enum class Algorithm : std::uint8_t {
  automatic = 0,  // let choose() decide
#define ANELLO_ALGORITHM(name, value, ...) name = value,
#include "ring/algorithms/algorithms.def"
};

// "auto|ring|star|...", for help.
inline constexpr std::string_view kAlgorithmChoices = "auto"
#define ANELLO_ALGORITHM(name, ...) "|" #name
#define ANELLO_LEVELS(name, ...) "|" #name "+NAME"
#include "ring/algorithms/algorithms.def"
    ;

// In the table's order, without automatic; those of one level.
std::span<const Algorithm> all_algorithms();

// How hosts with several ranks are served: as all others, or by an algorithm of two levels.
enum class Levels : std::uint8_t {
  one = 0,
#define ANELLO_LEVELS(name, value, ...) name = value,
#include "ring/algorithms/algorithms.def"
};
std::span<const Levels> all_levels();  // in the table's order, without one

// An algorithm of two levels is a value of its own, made of its levels and of the algorithm between hosts.
constexpr Algorithm in_levels(Levels levels, Algorithm between_hosts) {
  return Algorithm(unsigned(levels) << 4 | unsigned(between_hosts));
}
constexpr Levels levels_of(Algorithm algorithm) {
  return Levels(unsigned(algorithm) >> 4);
}
constexpr Algorithm between_hosts(Algorithm algorithm) {
  return Algorithm(unsigned(algorithm) & 15);
}

// "ring", "shares+ring"; automatic is "auto"; "?" if no algorithm has this value.
std::string_view name(Algorithm algorithm);
bool parse(std::string_view text, Algorithm& algorithm);
std::string algorithm_names();  // "auto, ring, star, ...", for messages

// Is every element ((x0 + x1) + x2) + ..., whatever the size, the slabs and the placement of ranks? If elements travel
// as a `narrow` type: of the rounded contributions, and rounded once. Not for automatic, which promises nothing.
bool reproducible(Algorithm algorithm, bool narrow = false);

}  // namespace anello
