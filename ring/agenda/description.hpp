// The facts of a named operation on which ranks must agree before its data moves, and the sizes in which ranks may
// differ. Values. Pure.
#pragma once
#include <anello/tensor.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ring/base/collective.hpp"
#include "ring/base/wire.hpp"

namespace anello::agenda {

// Values are part of the wire protocol.
enum class Verb : std::uint8_t {
#define ANELLO_NAMED(name, number) name = number,
#include "ring/base/collectives.def"
  join = 7
};
std::string_view name(Verb verb);
std::optional<Verb> verb_of(Kind kind);  // empty if there are no named operations of this kind
bool reduces(Verb verb);

// True if a rank that has joined can still take part, with tensors of neutral elements.
inline bool allows_joined(Verb verb) {
  return verb == Verb::allreduce || verb == Verb::barrier;
}

// The maximum number of arrays in an operation, and of dimensions in an array. A larger number violates the protocol.
inline constexpr std::size_t kMaxArrays = 1 << 20, kMaxDimensions = 1 << 10;

struct Array {
  DType dtype = DType::f32;
  std::vector<std::uint64_t> shape;  // the first dimension is 0 if ranks may differ in it
  friend bool operator==(const Array&, const Array&) = default;
};

struct Description {
  Verb verb = Verb::barrier;
  Op op = Op::sum;
  std::int32_t root = -1;
  DType wire{};  // the type in which elements are sent; 0: the elements' own type
  double prescale = 1, postscale = 1;
  bool on_gpu = false;  // tensors are in GPU memory
  std::vector<Array> arrays;
  friend bool operator==(const Description&, const Description&) = default;
};

// For two allreduces that may be in a list: true if they may be in the same list, because they differ only in their
// arrays.
bool share_list(const Description& one, const Description& other);
// True for an allreduce in host memory.
inline bool may_be_in_list(const Description& description) {
  return description.verb == Verb::allreduce && !description.on_gpu;
}
std::uint64_t bytes_of(const Description& description);  // the bytes of all arrays; UINT64_MAX if they exceed 64 bits

// The sizes in which ranks may differ. Each rank reports its own sizes beside the Description. Allgather: the first
// dimension of each array. Alltoall: the number of rows that go to each rank. Other verbs: empty.
using Sizes = std::vector<std::uint64_t>;
// Returns the length of `Sizes` in a group of `ranks` ranks.
std::size_t number_of_sizes(const Description& description, int ranks);

// count(): the product of all dimensions. row_count(): the product of all dimensions except the first. Both return
// UINT64_MAX if the product exceeds 64 bits.
std::uint64_t count(const std::vector<std::uint64_t>& shape);
std::uint64_t row_count(const std::vector<std::uint64_t>& shape);

// Describes how the calls of two ranks differ: "rank 0 has shape (17, 3), rank 2 has (17, 4)". Empty if they agree.
std::string difference(int rank, const Description& mine, int other_rank, const Description& theirs);

void encode(const Description& description, Writer& out);
Description decode_description(Reader& in);  // throws Error{protocol}

}  // namespace anello::agenda
