// One collective operation with a given input for each rank and an expected result. The numbers are small and whole, so
// that every type and order of reduction gives the same result; arithmetic_test checks other numbers. Shared by tests
// that run plans over simulated links and tests that run worlds.
#pragma once
#include <anello/tensor.hpp>
#include <cstdint>
#include <memory_resource>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ring/base/signature.hpp"
#include "ring/plan/parts.hpp"

namespace anello {

struct Exercise {
  Kind kind = Kind::allreduce;
  Op op = Op::sum;
  DType dtype = DType::f32;
  std::uint64_t count = 0;  // the same as in Shape
  int world = 1;
  int root = 0;  // used by operations that have a root
  bool in_place = false;
  bool shareable = false;  // memory from anello::allocate
  std::optional<DType> wire = {};
  bool uneven = false;  // the ranks' parts are uneven_counts() of `count`
  double prescale = 1, postscale = 1;
  Algorithm algorithm = Algorithm::automatic;  // of allreduce, forced

  // The counts in the form that the operation and Shape need; empty if the parts are equal.
  std::vector<std::uint64_t> counts(int rank) const;
  std::vector<std::uint64_t> received(int rank) const;
};
std::string describe(const Exercise& exercise);

// Bytes of a memory resource, which are filled, copied and compared all at once. A std::pmr::vector would handle each
// byte separately; under the thread sanitizer, this took a third of anello-conformance's processor time.
class Memory {
 public:
  explicit Memory(std::pmr::memory_resource* resource = std::pmr::get_default_resource()) : resource_(resource) {}
  ~Memory();
  Memory(const Memory&) = delete;

  void fill(std::size_t bytes, std::byte value);  // once
  void copy(const Memory& from);                  // once
  std::span<std::byte> bytes() const { return bytes_; }
  bool operator==(const Memory& other) const;

 private:
  void allocate(std::size_t bytes);

  std::pmr::memory_resource* resource_;
  std::span<std::byte> bytes_;
};

// One rank's memory of the exercise, filled, with guards around it. Not movable: tensors point into it.
class Part {
 public:
  Part(const Exercise& exercise, int rank);
  ~Part();  // defined in the .cpp: inlined without optimisation, it takes longer than most exercises
  Part(const Part&) = delete;

  ConstTensor input() const { return {input_, input_elems_, exercise_.dtype}; }
  Tensor in_place() const { return {input_, input_elems_, exercise_.dtype}; }
  Tensor output() const { return {output_, output_elems_, exercise_.dtype}; }

  // Describes an error in the result, the input (out of place) or the guards; empty if there is none.
  std::string wrong() const;

 private:
  static constexpr std::size_t kGuardBytes = 64;

  // A part of the output: the elements from `first` on that `owner` contributed or, if the operation reduces, all
  // ranks.
  struct Block {
    std::uint64_t begin, count;
    int owner;
    std::uint64_t first;
  };

  std::byte* claim(Memory& memory, std::uint64_t elems) const;
  void fill();
  bool guards_hold(const Memory& memory) const;
  int contribution(int rank, std::uint64_t element) const;
  bool reduces() const;
  std::vector<Block> blocks() const;
  template <class T>
  T expected(const Block& block, std::uint64_t at) const;
  template <class T>
  T as_sent(T value) const;
  template <class T>
  bool is_right(T value, T exact) const;
  template <class T>
  std::uint64_t right_elems(const Block& block) const;
  std::uint64_t first_wrong() const;
  int reduced(std::uint64_t element) const;

  Exercise exercise_;
  int rank_;
  plan::Parts parts_;  // parts of the larger buffer; for alltoall, of the output
  std::uint64_t input_elems_ = 0, output_elems_ = 0;
  // first_: memory of input and output together, or of the input; second_: memory of the output; original_: a copy of
  // the input before the operation.
  Memory first_, second_, original_;
  std::byte *input_ = nullptr, *output_ = nullptr;
};

}  // namespace anello
