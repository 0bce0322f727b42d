// Signatures for tests that need some.
#pragma once
#include "ring/base/signature.hpp"

namespace anello {

inline Signature operation(std::uint64_t sequence, std::uint64_t count) {
  Signature signature;
  signature.generation = 1;
  signature.sequence = sequence;
  signature.count = count;
  signature.kind = Kind::allreduce;
  signature.dtype = DType::f32;
  return signature;
}

}  // namespace anello
