// Errors about one peer, for those that move data over links: a link knows no ranks, and only the caller knows what the
// peers' operations are called.
#pragma once
#include <anello/error.hpp>
#include <cstring>
#include <functional>
#include <string_view>

#include "ring/base/bytes.hpp"
#include "ring/base/signature.hpp"

namespace anello::run {

// Makes the error for a signature that differs from this rank's.
using Explain = std::function<Error(int peer, const Signature& theirs)>;

// Errors that `work` throws get the peer's rank.
template <class Work>
auto with_rank(int peer, Work work) {
  try {
    return work();
  } catch (const Error& e) {
    throw Error(e.code(), e.message(), peer);
  }
}

// Throws what `explain` makes of a peer's encoded signature that differs from this rank's, or Error{protocol} if it is
// none.
inline void check_signature(const EncodedSignature& mine, ConstBytes theirs, int peer, const Explain& explain) {
  if (std::memcmp(theirs.data(), mine.data(), kSignatureBytes) == 0) return;
  const std::string_view text(reinterpret_cast<const char*>(theirs.data()), kSignatureBytes);
  throw explain(peer, with_rank(peer, [&] { return decode_signature(text); }));
}

}  // namespace anello::run
