// The signature that precedes an operation's data on each link. It is sent together with the first data. The receiver
// compares it with its own, to check that the peer is in the same operation.
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

inline constexpr std::size_t kJoinedBytes = 8192;  // data that may be put after a signature in one run of memory

// Copies `first` and `second` to `memory`, which must have room for both, and returns the result.
inline ConstBytes joined(ConstBytes first, ConstBytes second, std::byte* memory) {
  std::copy(first.begin(), first.end(), memory);
  std::copy(second.begin(), second.end(), memory + first.size());
  return {memory, first.size() + second.size()};
}

// Makes the error for a peer whose signature differs from this rank's. The caller supplies this function, because only
// the caller has the operations' names.
using Explain = std::function<Error(int peer, const Signature& theirs)>;

// If the peer's encoded signature differs from this rank's, throws the error that `explain` returns, or Error{protocol}
// if the bytes are not a valid signature.
inline void check_signature(const EncodedSignature& mine, ConstBytes theirs, int peer, const Explain& explain) {
  if (std::memcmp(theirs.data(), mine.data(), kSignatureBytes) == 0) return;
  const std::string_view text(reinterpret_cast<const char*>(theirs.data()), kSignatureBytes);
  throw explain(peer, link::with_rank(peer, [&] { return decode_signature(text); }));
}

}  // namespace anello::run
