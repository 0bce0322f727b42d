// The properties of an operation on which its ranks must agree. Sent before an operation's data on every connection,
// and over the control plane when an operation makes no progress. Pure.
#pragma once
#include <anello/tensor.hpp>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ring/base/algorithm.hpp"
#include "ring/base/collective.hpp"

namespace anello {

inline constexpr DType kAsTheyAre{};  // the elements' own type

// Values that are in the fingerprint, for messages. Comparisons ignore these values, because they compare the
// fingerprint. They are sent with a NamedSignature, but not with data.
struct Hidden {
  bool known = false;
  double postscale = 1;
  std::uint64_t token = 0;
  friend constexpr bool operator==(const Hidden&, const Hidden&) { return true; }
};

struct Signature {
  std::uint64_t group = 0;  // not encoded, because the connection determines it; 0 is the world
  std::uint32_t generation = 0;
  std::uint64_t sequence = 0;  // number of operations that the group began before this one
  std::uint64_t count = 0;     // elements
  std::uint32_t slab_elems = 0;
  std::uint32_t results = 0;  // checksum of the newest result that must be equal on all ranks; 0: none
  // Fingerprint of values that have no field, such as lists of counts or a factor; 0: none.
  std::uint64_t fingerprint = 0;
  std::int32_t root = -1;
  Kind kind = Kind::barrier;
  Op op = Op::sum;
  DType dtype = DType::u8;
  DType wire = kAsTheyAre;  // the type in which elements are sent
  Algorithm algorithm = Algorithm::automatic;
  Hidden hidden;  // not encoded

  friend bool operator==(const Signature&, const Signature&) = default;
};

// Adds one more value to a fingerprint. Never returns 0. Uses SplitMix64's finaliser, so that short lists of small
// numbers do not have equal fingerprints.
constexpr std::uint64_t fingerprint(std::uint64_t before, std::uint64_t value) {
  std::uint64_t mixed = before ^ (value + 0x9e3779b97f4a7c15 + (before << 6) + (before >> 2));
  mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
  mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
  mixed ^= mixed >> 31;
  return mixed == 0 ? 1 : mixed;
}

// Returns the fingerprint of bytes, for example of a name that all ranks must have given.
std::uint64_t fingerprint(std::string_view bytes);

inline constexpr std::size_t kSignatureBytes = 48;
using EncodedSignature = std::array<char, kSignatureBytes>;
void encode(const Signature& signature, EncodedSignature& bytes);
// Throws Error{protocol} if the bytes are not a signature.
Signature decode_signature(std::string_view bytes);

// A signature with the name that a rank's program gave the operation. operator== compares only the signatures, not the
// names.
struct NamedSignature : Signature {
  NamedSignature() = default;
  NamedSignature(const Signature& signature, std::string its_name = {})
      : Signature(signature), name(std::move(its_name)) {}
  std::string name;
};

std::string describe(const Signature& signature);  // "allreduce #3 (sum of 100 f32)"
std::string describe(const NamedSignature& call);  // "allreduce #3 (sum of 100 f32) 'loss'"

// Returns "rank 2 calls " or "ranks 0, 1 call ".
std::string who_calls(const std::vector<int>& ranks);

// Describes the first difference between call `a` of `ranks` and call `b` of `others`. The text has both lists of
// ranks, and the value that each call has at this difference. The text is empty if the calls are equal.
std::string difference(const std::vector<int>& ranks, const NamedSignature& a, const std::vector<int>& others,
                       const NamedSignature& b);

}  // namespace anello
