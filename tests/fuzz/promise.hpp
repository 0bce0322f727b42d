// The permitted results of a parser for any bytes. Anything else ends the process, which is how a fuzzer notices.
#pragma once
#include <anello/error.hpp>
#include <cstdlib>

namespace anello::fuzz {

inline void require(bool holds) {
  if (!holds) std::abort();
}

// Parses, or throws Error of one of these codes.
template <ErrorCode... allowed, class Parse>
void expect_value_or_error(Parse parse) {
  try {
    parse();
  } catch (const Error& e) {
    require(((e.code() == allowed) || ...));
  }
}

}  // namespace anello::fuzz
