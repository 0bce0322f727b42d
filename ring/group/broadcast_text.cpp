#include "ring/group/broadcast_text.hpp"

namespace anello {

std::string broadcast_text(int root, Group& group, std::string mine, const Options& options) {
  std::uint64_t bytes = mine.size();
  group.broadcast(std::span(&bytes, 1), root, options);
  mine.resize(bytes);
  group.broadcast(mine, root, options);
  return mine;
}

}  // namespace anello
