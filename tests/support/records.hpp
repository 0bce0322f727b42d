// Records of operations, for tests.
#pragma once
#include "ring/trace/record.hpp"

namespace anello::trace {

inline Record record_of(const Signature& signature, std::string_view name, Ticks queued, Ticks begun) {
  Record record;
  record.set(signature, name, queued, begun);
  return record;
}

}  // namespace anello::trace
