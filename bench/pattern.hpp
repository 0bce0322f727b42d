// What goes into a rank's buffer, and what must come out of a reduction over all of them. The numbers are small and
// whole, so that every reduction of every element type is exact in whatever order; their period is a prime, so that
// buffers are filled and checked at the speed of memory and yet a displaced chunk shows. Knows nothing of the engine's
// arithmetic, which it checks. One thread.
#pragma once
#include <anello/tensor.hpp>
#include <cstdint>
#include <vector>

namespace anello::bench {

class Pattern {
 public:
  Pattern(DType dtype, Op op, int rank, int world);

  void fill(Tensor input) const;
  std::uint64_t count_wrong(ConstTensor output) const;

 private:
  static constexpr std::size_t kPeriod = 1021;  // elements

  std::size_t elem_bytes_;
  std::vector<std::byte> mine_, expected_;  // one period of each
};

}  // namespace anello::bench
