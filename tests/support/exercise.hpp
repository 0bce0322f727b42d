// One collective operation whose result is known: what each rank puts in, and what must come out. Small whole numbers,
// so that every type and order of reduction gives the same; arithmetic_test looks after the rest. Shared by tests that
// run plans over simulated links and those that run worlds.
#pragma once
#include <anello/tensor.hpp>
#include <cstdint>
#include <memory_resource>
#include <optional>
#include <string>
#include <vector>

#include "ring/base/signature.hpp"
#include "ring/plan/parts.hpp"

namespace anello {

struct Exercise {
  Kind kind = Kind::allreduce;
  Op op = Op::sum;
  DType dtype = DType::f32;
  std::uint64_t count = 0;  // as in Shape
  int world = 1;
  int root = 0;  // of those that have one
  bool in_place = false;
  bool shareable = false;  // memory from anello::allocate
  std::optional<DType> wire = {};
  bool uneven = false;  // the ranks' parts are uneven_counts() of `count`
  double prescale = 1, postscale = 1;
  Algorithm algorithm = Algorithm::automatic;  // of allreduce, forced

  // As the operation and Shape want them; empty if parts are equal.
  std::vector<std::uint64_t> counts(int rank) const;
  std::vector<std::uint64_t> received(int rank) const;
};
std::string describe(const Exercise& exercise);

// One rank's memory of it, filled, with guards around. Not movable: tensors point into it.
class Part {
 public:
  Part(const Exercise& exercise, int rank);
  ~Part();  // not here: without optimisation it takes longer than most exercises
  Part(const Part&) = delete;

  ConstTensor input() const { return {input_, input_elems_, exercise_.dtype}; }
  Tensor in_place() const { return {input_, input_elems_, exercise_.dtype}; }
  Tensor output() const { return {output_, output_elems_, exercise_.dtype}; }

  // What is wrong with the result, the input (out of place) or the guards; empty if nothing is.
  std::string wrong() const;

 private:
  static constexpr std::size_t kGuardBytes = 64;

  using Memory = std::pmr::vector<std::byte>;
  std::byte* claim(Memory& memory, std::uint64_t elems) const;
  void fill();
  bool guards_hold(const Memory& memory) const;
  int contribution(int rank, std::uint64_t element) const;
  bool reduces() const;
  template <class T>
  T expected(std::uint64_t at) const;
  template <class T>
  T as_sent(T value) const;
  template <class T>
  bool is_right(T value, std::uint64_t at) const;
  std::uint64_t first_wrong() const;
  int reduced(std::uint64_t element) const;
  int source(std::uint64_t at) const;

  Exercise exercise_;
  int rank_;
  plan::Parts parts_;  // of the larger buffer; of alltoall, of the output
  std::uint64_t input_elems_ = 0, output_elems_ = 0;
  Memory first_, second_, original_;  // memory of both or of the input; of the output; the input before
  std::byte *input_ = nullptr, *output_ = nullptr;
};

}  // namespace anello
