#include "ring/plan/choose.hpp"

#include <algorithm>

namespace anello {
namespace {

constexpr std::uint64_t kKiB = 1024;

Choice choose_freely(const Facts& facts) {
  if (facts.world == 1) return {Algorithm::ring, 0, "a world of one only copies"};
  if (facts.world == 2 && facts.bytes <= 64 * kKiB)
    return {Algorithm::one_shot, 0, "two ranks, small: one message each way"};
  if (facts.bytes <= 64 * kKiB) return {Algorithm::star, 0, "small: the fewest messages, 2(n-1)"};
  return {Algorithm::ring, 0, "large: the fewest bytes, 2(n-1)/n of the buffer each way"};
}

}  // namespace

Choice choose(const Facts& facts) {
  Choice choice = choose_freely(facts);
  if (facts.forced != Algorithm::automatic) choice = {facts.forced, 0, "forced by ANELLO_ALGORITHM"};
  if (facts.slab_bytes > 0 && facts.bytes > facts.slab_bytes)
    choice.slab_elems = std::max<std::uint64_t>(1, facts.slab_bytes / facts.elem_bytes);
  return choice;
}

std::string algorithm_names() {
  std::string names;
  for (auto algorithm = Algorithm::automatic; algorithm <= Algorithm::chain; algorithm = Algorithm(int(algorithm) + 1))
    names.append(names.empty() ? "" : ", ").append(name(algorithm));
  return names;
}

}  // namespace anello
