// The input of each rank, and the expected result of a reduction over all ranks. The numbers are small and whole, so
// that every reduction of every element type is exact in any order. The numbers repeat with a short prime period. A
// short period lets buffers be filled and checked at the speed of memory; a prime period shows a chunk in the wrong
// place. Does not use the engine's arithmetic, because this pattern checks that arithmetic. One thread.
#pragma once
#include <anello/tensor.hpp>
#include <cstdint>
#include <vector>

namespace anello::bench {

class Pattern {
 public:
  Pattern(DType dtype, Op op, int rank, int world);

  void fill(Tensor input) const;
  // Counts the elements that differ from the expected reduction, or from this rank's input. Compares the output's first
  // element with expected element `first`, or with input element `first`.
  std::uint64_t count_wrong(ConstTensor output, std::uint64_t first = 0) const;
  std::uint64_t count_unlike_input(ConstTensor output, std::uint64_t first) const;

 private:
  static constexpr std::size_t kPeriod = 1021;  // elements

  std::uint64_t count_unlike(const std::vector<std::byte>& period, ConstTensor output, std::uint64_t first) const;

  std::size_t elem_bytes_;
  std::vector<std::byte> mine_, expected_;  // one period of the input and of the expected result
};

}  // namespace anello::bench
