// The signature that stands as a header in front of an operation's data on each link: sent together with the first
// data, and compared with this rank's, to see whether the peer is in the same operation.
#pragma once
#include <algorithm>
#include <anello/error.hpp>
#include <cstring>
#include <functional>
#include <string_view>

#include "ring/base/bytes.hpp"
#include "ring/base/signature.hpp"
#include "ring/link/with_rank.hpp"

namespace anello::run {

inline constexpr std::size_t kJoinedBytes = 8192;  // data that may be put behind a signature in one run of memory

// Two runs as one, in memory that has room for both.
inline ConstBytes joined(ConstBytes first, ConstBytes second, std::byte* memory) {
  std::copy(first.begin(), first.end(), memory);
  std::copy(second.begin(), second.end(), memory + first.size());
  return {memory, first.size() + second.size()};
}

// Makes the error for a signature that differs from this rank's. Only the caller knows what the operations are called.
using Explain = std::function<Error(int peer, const Signature& theirs)>;

// Throws what `explain` makes of a peer's encoded signature that differs from this rank's, or Error{protocol} if it is
// none.
inline void check_signature(const EncodedSignature& mine, ConstBytes theirs, int peer, const Explain& explain) {
  if (std::memcmp(theirs.data(), mine.data(), kSignatureBytes) == 0) return;
  const std::string_view text(reinterpret_cast<const char*>(theirs.data()), kSignatureBytes);
  throw explain(peer, link::with_rank(peer, [&] { return decode_signature(text); }));
}

}  // namespace anello::run
