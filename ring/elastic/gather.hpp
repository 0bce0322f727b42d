// Gathers one message from each rank; all messages have the same length. Also encodes and decodes hashes for such
// messages. Collective; not for hot paths.
#pragma once
#include <anello/group.hpp>
#include <string>
#include <vector>

#include "ring/base/wire.hpp"
#include "ring/elastic/hash.hpp"

namespace anello::elastic {

// Returns the messages of all ranks, by rank; `mine` is not empty. Blocks, and throws the errors of allgather.
inline std::vector<std::string> gather(Group& group, const std::string& mine, const PartOptions& options) {
  std::string all(mine.size() * std::size_t(group.size()), '\0');
  group.allgather(mine, all, options);
  std::vector<std::string> messages;
  for (std::size_t at = 0; at < all.size(); at += mine.size()) messages.push_back(all.substr(at, mine.size()));
  return messages;
}

inline void encode(Writer& out, const Hash& hash) {
  out.u64(hash.high).u64(hash.low);
}
inline Hash decode_hash(Reader& in) {
  const std::uint64_t high = in.u64();
  return {high, in.u64()};
}

}  // namespace anello::elastic
