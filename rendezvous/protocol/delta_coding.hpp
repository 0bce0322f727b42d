// Delta coding of a list of similar texts. Each text is written as three values: how many bytes at its beginning are
// equal to the previous text, how many at its end, and the bytes between. So parts that are equal in all texts are sent
// once, and a list of equal texts, as in a barrier, costs no more than one text. Pure.
#pragma once
#include <string>
#include <vector>

#include "ring/base/wire.hpp"

namespace anello::rendezvous {

struct DeltaLimits {
  std::size_t texts, text_bytes, all_bytes;  // limits of the result, since a few bytes can stand for very many
};

void write_deltas(Writer& out, const std::vector<std::string>& texts);

// Throws Error{protocol}. Its message says which limit is exceeded, or which text refers to bytes that do not exist.
std::vector<std::string> read_deltas(Reader& in, const DeltaLimits& limits);

}  // namespace anello::rendezvous
