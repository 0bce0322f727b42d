// Delta coding: texts that differ little from each other, each as what it does not share with the one before at its
// beginning and its end. So what is equal in all of them travels once, wherever it stands, without a list of what that
// is; and if all are equal, as in a barrier, their number does not count. Pure.
#pragma once
#include <string>
#include <vector>

#include "ring/base/wire.hpp"

namespace anello::rendezvous {

struct DeltaLimits {
  std::size_t texts, text_bytes, all_bytes;  // a few bytes may claim to stand for many
};

void write_deltas(Writer& out, const std::vector<std::string>& texts);

// Throws Error{protocol} that says which limit is exceeded, or which text refers to bytes that are not there.
std::vector<std::string> read_deltas(Reader& in, const DeltaLimits& limits);

}  // namespace anello::rendezvous
