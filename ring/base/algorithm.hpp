// How a reduction over all ranks goes about it. What each of them does is in ring/plan.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace anello {

// Values are part of the wire protocol: append only.
enum class Algorithm : std::uint8_t {
  automatic,  // let choose() decide
  ring,       // each rank's share travels round, twice; 2(n-1)/n of the data each way
  star,       // everybody to rank 0 and back; 2(n-1) messages
  tree,       // the same along a binomial tree
  one_shot,   // everybody sends everything to everybody
  two_shot,   // each rank owns a share, gathers it from all, folds it and sends it to all
  halving,    // recursive halving, then doubling
  chain,      // 0 -> n-1 and back
};
std::string_view name(Algorithm algorithm);  // "ring"; automatic is "auto"
bool parse(std::string_view text, Algorithm&);
std::string algorithm_names();  // "auto, ring, star, ...", for messages

}  // namespace anello
