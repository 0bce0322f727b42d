// Delta coding of a list of similar texts. Each text is written as the numbers of bytes that it shares with the text
// before at the beginning and at the end, and the bytes between. So the parts that are equal in all texts travel once,
// and a list of equal texts, as in a barrier, costs no more than one of them. Pure.
#pragma once
#include <string>
#include <vector>

#include "ring/base/wire.hpp"

namespace anello::rendezvous {

struct DeltaLimits {
  std::size_t texts, text_bytes, all_bytes;  // limits of the result: a few bytes can stand for very many
};

void write_deltas(Writer& out, const std::vector<std::string>& texts);

// Throws Error{protocol} that says which limit is exceeded, or which text refers to bytes that are not there.
std::vector<std::string> read_deltas(Reader& in, const DeltaLimits& limits);

}  // namespace anello::rendezvous
