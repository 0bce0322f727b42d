// One call of a collective, with checked arguments. Owns no memory: all spans and buffers are borrowed.
#pragma once
#include <anello/tensor.hpp>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "ring/algorithms/selection.hpp"
#include "ring/base/signature.hpp"
#include "ring/run/buffer.hpp"

namespace anello::group {

inline constexpr std::uint32_t kCountShift = 3;  // counts are exchanged as u64

struct Call {
  Kind kind = Kind::barrier;
  Op op = Op::sum;
  DType dtype = DType::u8;
  std::uint64_t count = 0;  // as in algorithms::Shape; the sum of `counts` if it is not empty
  int root = -1;
  std::uint64_t fingerprint = 0;                    // as in Signature
  std::uint64_t token = 0;                          // Options::consistency_token; also included in the fingerprint
  std::span<const std::uint64_t> counts, received;  // as in Shape
  // If the call exchanges the counts of an alltoall: the numbers that must arrive.
  std::span<const std::uint64_t> agreed;
  run::Buffer input, output;
  std::string_view name;
  std::string_view algorithm = {};  // name of the forced algorithm; empty: the setting ANELLO_ALGORITHM decides
  // Forced size; kSuitableSlab: the setting ANELLO_SLAB_BYTES decides.
  std::int64_t slab_bytes = algorithms::kSuitableSlab;
  std::optional<DType> wire = {};  // the type in which elements are sent; empty: the elements' own type
  double prescale = 1, postscale = 1;
  bool rank_order = false;  // adds in rank order, as in reproducible mode
};

}  // namespace anello::group
