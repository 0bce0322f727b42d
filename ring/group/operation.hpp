// One call of a collective, its arguments checked: what is asked for. Borrows everything.
#pragma once
#include <anello/tensor.hpp>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "ring/algorithms/selection.hpp"
#include "ring/base/signature.hpp"
#include "ring/run/buffer.hpp"

namespace anello {

inline constexpr std::uint32_t kCountShift = 3;  // counts are exchanged as u64

struct Operation {
  Kind kind = Kind::barrier;
  Op op = Op::sum;
  DType dtype = DType::u8;
  std::uint64_t count = 0;  // as in Shape; with `counts`, their sum
  int root = -1;
  std::uint64_t fingerprint = 0;                    // as in Signature
  std::span<const std::uint64_t> counts, received;  // as in Shape
  std::span<const std::uint64_t> agreed;            // of an alltoall of counts: what must come out
  Buffer input, output;
  std::string_view name;
  std::string_view algorithm = {};          // forced; empty: as set
  std::int64_t slab_bytes = kSuitableSlab;  // the same
  std::optional<DType> wire = {};           // as what elements travel; empty: as they are
  double prescale = 1, postscale = 1;
};

}  // namespace anello
