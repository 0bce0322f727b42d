#include "bench/library.hpp"

#include <anello/error.hpp>

#include "ring/base/text.hpp"

namespace anello::bench {

Library::Call Library::collective(Kind kind, ConstTensor input, Tensor output, Op op) {
  if (kind == Kind::allreduce) return allreduce(input, output, op);
  throw Error(ErrorCode::unsupported, text("of this library only allreduce is measured, not ", name(kind)));
}

}  // namespace anello::bench
