#include "ring/base/signature.hpp"

#include <anello/error.hpp>
#include <utility>

#include "ring/base/check.hpp"
#include "ring/base/element_types.hpp"
#include "ring/base/rank_list.hpp"
#include "ring/base/text.hpp"
#include "ring/base/wire.hpp"

namespace anello {
namespace {

constexpr std::string_view kAlgorithms = "algorithms", kPostscales = "postscales", kTokens = "consistency tokens";
constexpr std::uint32_t kMagic = 0x4f4c4e41;  // "ANLO"

constexpr std::string_view kListsOfTensors = "tensors of a list (same total)";
constexpr std::string_view kListsOfCounts = "lists of counts (same total)";

// Names the lists that are in the fingerprint; empty if the operation has none.
constexpr std::string_view lists(Kind kind) {
  if (kind == Kind::allreduce || kind == Kind::broadcast) return kListsOfTensors;
  return facts_of(kind).parts ? kListsOfCounts : "";
}

// Names the values that enter only the fingerprint. They cannot be printed, because they cannot be computed from the
// fingerprint.
std::string values_without_field(Kind kind) {
  const std::string postscales(facts_of(kind).reduces ? kPostscales : ""), its_lists(lists(kind));
  if (!postscales.empty() && !its_lists.empty()) return text(postscales, ", ", its_lists, ", or ", kTokens);
  const std::string one = postscales + its_lists;
  return one.empty() ? std::string(kTokens) : text(one, " or ", kTokens);
}

std::string hidden_field(const Signature& a, const Signature& b) {
  if (!a.hidden.known || !b.hidden.known) return values_without_field(a.kind);
  if (a.hidden.token != b.hidden.token) return std::string(kTokens);
  return std::string(a.hidden.postscale != b.hidden.postscale ? kPostscales : lists(a.kind));
}

std::string differing_field(const Signature& a, const Signature& b) {
  if (a.sequence != b.sequence) return "numbers of operations";
  if (a.kind != b.kind) return "operations";
  if (a.dtype != b.dtype) return "dtypes";
  if (a.wire != b.wire) return "dtypes on the wire";
  if (a.count != b.count) return "counts";
  if (a.op != b.op) return "reductions";
  if (a.root != b.root) return "roots";
  if (a.fingerprint != b.fingerprint) return hidden_field(a, b);
  if (a.generation != b.generation) return "generations";
  if (a.results != b.results) return "checksums of earlier results";
  return std::string(kAlgorithms);
}

// Returns the value of a field for which describe() has no text.
std::string value_of(std::string_view field, const Signature& s) {
  if (field == kAlgorithms) return text(" by ", name(s.algorithm), ", slabs of ", s.slab_elems);
  if (field == kPostscales) return " with postscale " + exact(s.hidden.postscale);
  return field == kTokens ? text(" with token ", s.hidden.token) : "";
}

}  // namespace

std::string_view name(Kind kind) {
  switch (kind) {
#define ANELLO_COLLECTIVE(name, ...) \
  case Kind::name:                   \
    return #name;
#include "ring/base/collectives.def"
  }
  return "?";
}

// Uses words of eight bytes that do not depend on the machine's byte order.
std::uint64_t fingerprint(std::string_view bytes) {
  std::uint64_t all = fingerprint(0, bytes.size());
  for (std::size_t at = 0; at < bytes.size();) {
    std::uint64_t word = 0;
    for (int shift = 0; shift < 64 && at < bytes.size(); shift += 8)
      word |= std::uint64_t(std::uint8_t(bytes[at++])) << shift;
    all = fingerprint(all, word);
  }
  return all;
}

// The last word holds kind, reduction and both element types in 24 bits. This keeps the signature short, so that small
// data fits into the same cache line.
constexpr unsigned kKindBits = 5, kOpBits = 5, kTypeBits = 7;
static_assert(unsigned(kAllKinds.back()) < 1 << kKindBits && unsigned(Op::bit_xor) < 1 << kOpBits &&
              unsigned(kElementTypes.back()) < 1 << kTypeBits && kKindBits + kOpBits + 2 * kTypeBits == 24);

std::uint32_t properties(const Signature& s) {
  std::uint32_t word = std::uint32_t(s.algorithm);
  word = word << kTypeBits | std::uint32_t(s.wire);
  word = word << kTypeBits | std::uint32_t(s.dtype);
  word = word << kOpBits | std::uint32_t(s.op);
  return word << kKindBits | std::uint32_t(s.kind);
}

void take_properties(std::uint32_t word, Signature& s) {
  const auto take = [&word](unsigned bits) { return std::exchange(word, word >> bits) & ((1U << bits) - 1); };
  s.kind = Kind(take(kKindBits));
  s.op = Op(take(kOpBits));
  s.dtype = DType(take(kTypeBits));
  s.wire = DType(take(kTypeBits));
  s.algorithm = Algorithm(word);
}

// Writes whole words directly into `bytes`. A Writer would be slower, because it allocates a text, and every operation
// calls encode().
void encode(const Signature& s, EncodedSignature& bytes) {
  char* at = bytes.data();
  const auto put = [&at](std::uint64_t word) {
    for (int i = 0; i < 8; i++) *at++ = char(word >> (8 * i));
  };
  const auto put_pair = [&put](std::uint32_t first, std::uint32_t second) { put(first | std::uint64_t(second) << 32); };
  put_pair(kMagic, s.generation);
  for (const std::uint64_t value : {s.sequence, s.count, s.fingerprint}) put(value);
  put_pair(s.slab_elems, s.results);
  put_pair(std::uint32_t(s.root), properties(s));
  ANELLO_CHECK(at == bytes.data() + bytes.size());
}

Signature decode_signature(std::string_view bytes) {
  Reader reader("operation", bytes);
  if (reader.u32() != kMagic) throw Error(ErrorCode::protocol, "operation message: does not begin with its mark");
  Signature s;
  s.generation = reader.u32();
  s.sequence = reader.u64();
  s.count = reader.u64();
  s.fingerprint = reader.u64();
  s.slab_elems = reader.u32();
  s.results = reader.u32();
  s.root = reader.i32();
  take_properties(reader.u32(), s);
  reader.finish();
  return s;
}

std::string describe(const Signature& s) {
  std::string out = text(name(s.kind), " #", s.sequence);
  if (s.kind == Kind::barrier) return out;
  if (s.kind == Kind::alltoall && s.count == 0 && s.fingerprint != 0)
    return out + text(" (", name(s.dtype), " in unequal parts)");
  out += text(" (", facts_of(s.kind).reduces ? text(name(s.op), " of ") : "", s.count, " ", name(s.dtype));
  if (s.wire != kAsTheyAre) out += text(" as ", name(s.wire));
  if (facts_of(s.kind).root == Root::from) out += text(" from root ", s.root);
  if (facts_of(s.kind).root == Root::to) out += text(" to root ", s.root);
  return out + ")";
}

std::string describe(const NamedSignature& call) {
  const Signature& signature = call;
  return describe(signature) + (call.name.empty() ? "" : text(" '", call.name, "'"));
}

std::string who_calls(const std::vector<int>& ranks) {
  return rank_list(ranks) + (ranks.size() == 1 ? " calls " : " call ");
}

std::string difference(const std::vector<int>& ranks, const NamedSignature& a, const std::vector<int>& others,
                       const NamedSignature& b) {
  if (a == b) return {};
  const std::string field = differing_field(a, b);
  const auto call = [&field](const NamedSignature& s) { return describe(s) + value_of(field, s); };
  return text("the ", field, " differ: ", who_calls(ranks), call(a), ", ", who_calls(others), call(b));
}

}  // namespace anello
