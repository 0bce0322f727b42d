// Seeds of randomised tests, and random numbers that are the same on every machine. A test that fails prints its seed;
// ANELLO_SEED runs only that seed, ANELLO_SEEDS sets the number of seeds.
#pragma once
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "ring/base/config.hpp"
#include "ring/base/text.hpp"

namespace anello {

// Sanitizers slow everything down, so randomised tests run fewer seeds with them.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr int kSlowdown = 8;
#else
inline constexpr int kSlowdown = 1;
#endif

// Sizes for worlds of threads. With a sanitizer, only the code that runs matters, and most sizes run the same code.
// Plain runs check results, and anello-conformance also runs every algorithm with sanitizers, in worlds of 1 to 8
// ranks. Large worlds take most of the time. Their plans are the same over TCP and in shared memory, and the simulation
// and anello-conformance test these plans too. So each of the sizes 6, 7, 9 and 16 is tested either over TCP or in
// shared memory. The lists for TCP and for shared memory have the same length, because CTest takes the cases from one
// of these lists.
inline std::vector<int> world_sizes() {
  if (kSlowdown > 1) return {1, 2, 3, 4};
  if (environment("ANELLO_TRANSPORT") == "tcp") return {1, 2, 3, 4, 5, 6, 8, 16};
  return {1, 2, 3, 4, 5, 7, 8, 9};
}

// Sizes for tests whose subject is not the plan.
inline std::vector<int> few_world_sizes() {
  return kSlowdown > 1 ? std::vector<int>{1, 2, 5} : std::vector<int>{1, 2, 3, 4, 7};
}

inline std::vector<std::uint64_t> seeds(long count) {
  constexpr long kMax = std::numeric_limits<long>::max();
  if (const auto one = environment("ANELLO_SEED")) return {std::uint64_t(parse_number("ANELLO_SEED", *one, 0, kMax))};
  const auto many = environment("ANELLO_SEEDS");
  count = many ? parse_number("ANELLO_SEEDS", *many, 1, kMax) : count / kSlowdown;
  std::vector<std::uint64_t> all;
  for (long seed = 1; seed <= count; seed++) all.push_back(std::uint64_t(seed));
  return all;
}

inline std::string replay(std::uint64_t seed) {
  return text("replay with ANELLO_SEED=", seed);
}

// The generator SplitMix64.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  std::uint64_t below(std::uint64_t limit) { return next() % limit; }
  std::uint64_t from(std::uint64_t least, std::uint64_t most) { return least + below(most - least + 1); }
  bool percent(std::uint64_t chance) { return below(100) < chance; }
  template <class Choices>
  const auto& one_of(const Choices& choices) {
    return choices[below(choices.size())];
  }
  template <class T>
  void shuffle(std::vector<T>& all) {
    for (std::size_t left = all.size(); left > 1; left--) std::swap(all[left - 1], all[below(left)]);
  }

 private:
  std::uint64_t state_;
};

}  // namespace anello
