// What the ranks of a named operation must agree on before its data moves, and what each rank adds of its own. Values.
// Pure.
#pragma once
#include <anello/tensor.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ring/base/wire.hpp"

namespace anello::agenda {

// Values are part of the wire protocol: append only.
enum class Verb : std::uint8_t { allreduce = 1, allgather, broadcast, alltoall, reduce_scatter, barrier, join };
std::string_view name(Verb verb);

// Whether a rank that has joined can take part with tensors of neutral elements.
inline bool allows_joined(Verb verb) {
  return verb == Verb::allreduce || verb == Verb::barrier;
}

// The most arrays of an operation, and dimensions of an array. More would be a violation of the protocol.
inline constexpr std::size_t kMaxArrays = 1 << 20, kMaxDimensions = 1 << 10;

struct Array {
  DType dtype = DType::f32;
  std::vector<std::uint64_t> shape;  // where ranks may differ in the first dimension, that is 0
  friend bool operator==(const Array&, const Array&) = default;
};

struct Description {
  Verb verb = Verb::barrier;
  Op op = Op::sum;
  std::int32_t root = -1;
  DType wire{};  // the type that elements travel as; 0: their own
  double prescale = 1, postscale = 1;
  bool on_gpu = false;  // where the tensors lie
  std::vector<Array> arrays;
  friend bool operator==(const Description&, const Description&) = default;
};

// What a rank adds. Allgather: the first dimension of each array. Alltoall: the rows that go to each rank. Otherwise
// empty.
using Sizes = std::vector<std::uint64_t>;
// How many numbers `Sizes` has in a group of `ranks`.
std::size_t number_of_sizes(const Description& description, int ranks);

// The product of the dimensions; of those after the first one. UINT64_MAX if that is too much for 64 bits.
std::uint64_t count(const std::vector<std::uint64_t>& shape);
std::uint64_t row_count(const std::vector<std::uint64_t>& shape);

// Why two ranks are not in the same operation: "rank 0 has shape (17, 3), rank 2 has (17, 4)". Empty if they are.
std::string difference(int rank, const Description& mine, int other_rank, const Description& theirs);

void encode(const Description& description, Writer& out);
Description decode_description(Reader& in);  // throws Error{protocol}

}  // namespace anello::agenda
