#include "ring/agenda/description.hpp"

#include <anello/error.hpp>
#include <bit>

#include "ring/base/text.hpp"

namespace anello::agenda {
namespace {

// Formats a shape. If ranks may differ in the first dimension, shows it as *.
std::string shown(const Description& description, const std::vector<std::uint64_t>& shape) {
  const bool own_rows = description.verb == Verb::allgather || description.verb == Verb::alltoall;
  std::string all = "(";
  for (std::size_t k = 0; k < shape.size(); k++)
    all += text(k ? ", " : "", k == 0 && own_rows ? "*" : std::to_string(shape[k]));
  return all + (shape.size() == 1 ? ",)" : ")");
}

std::string shown(DType wire) {
  return wire == DType{} ? "no wire type" : text("wire type ", name(wire));
}

std::string_view shown_way(bool on_gpu) {
  return on_gpu ? "tensors that stay on its GPU" : "tensors that go through host memory";
}

std::uint64_t product(const std::vector<std::uint64_t>& shape, std::size_t from) {
  std::uint64_t all = 1;
  for (std::size_t k = from; k < shape.size(); k++)
    if (__builtin_mul_overflow(all, shape[k], &all)) return UINT64_MAX;
  return all;
}

DType checked(std::uint8_t dtype) {
  if (name(DType(dtype)) == "?") throw Error(ErrorCode::protocol, text("agenda message: no type ", unsigned(dtype)));
  return DType(dtype);
}

}  // namespace

std::string_view name(Verb verb) {
  switch (verb) {
#define ANELLO_NAMED(name, ...) \
  case Verb::name:              \
    return #name;
#include "ring/base/collectives.def"
    case Verb::join:
      return "join";
  }
  return "?";
}

std::optional<Verb> verb_of(Kind kind) {
  switch (kind) {
#define ANELLO_NAMED(name, ...) \
  case Kind::name:              \
    return Verb::name;
#include "ring/base/collectives.def"
    default:
      return std::nullopt;
  }
}

bool reduces(Verb verb) {
  switch (verb) {
#define ANELLO_NAMED(name, ...) \
  case Verb::name:              \
    return facts_of(Kind::name).reduces;
#include "ring/base/collectives.def"
    case Verb::join:
      return false;
  }
  return false;
}

std::size_t number_of_sizes(const Description& description, int ranks) {
  if (description.verb == Verb::allgather) return description.arrays.size();
  return description.verb == Verb::alltoall ? std::size_t(ranks) : 0;
}

std::uint64_t count(const std::vector<std::uint64_t>& shape) {
  return product(shape, 0);
}
std::uint64_t row_count(const std::vector<std::uint64_t>& shape) {
  return product(shape, 1);
}

bool share_list(const Description& one, const Description& other) {
  return one.op == other.op && one.wire == other.wire && one.prescale == other.prescale &&
         one.postscale == other.postscale;
}

std::uint64_t bytes_of(const Description& description) {
  std::uint64_t bytes = 0;
  for (const Array& array : description.arrays) {
    const std::uint64_t elems = count(array.shape), limit = (UINT64_MAX - bytes) / size_bytes(array.dtype);
    if (elems > limit) return UINT64_MAX;
    bytes += elems * size_bytes(array.dtype);
  }
  return bytes;
}

std::string difference(int rank, const Description& mine, int other_rank, const Description& theirs) {
  const auto differ = [&](const auto& own, const auto& others) {
    return text("rank ", rank, " has ", own, ", rank ", other_rank, " has ", others);
  };
  if (mine.verb != theirs.verb) return differ(name(mine.verb), name(theirs.verb));
  if (mine.arrays.size() != theirs.arrays.size())
    return differ(text(mine.arrays.size(), " tensors"), theirs.arrays.size());
  for (std::size_t k = 0; k < mine.arrays.size(); k++) {
    const std::string which = mine.arrays.size() == 1 ? "" : text(" in tensor ", k);
    const Array &own = mine.arrays[k], &others = theirs.arrays[k];
    if (own.dtype != others.dtype) return differ(text("dtype ", name(own.dtype), which), name(others.dtype));
    if (own.shape != others.shape)
      return differ(text("shape ", shown(mine, own.shape), which), shown(theirs, others.shape));
  }
  if (mine.op != theirs.op) return differ(text("reduction ", name(mine.op)), name(theirs.op));
  if (mine.root != theirs.root) return differ(text("root ", mine.root), theirs.root);
  if (mine.prescale != theirs.prescale) return differ("prescale " + exact(mine.prescale), exact(theirs.prescale));
  if (mine.postscale != theirs.postscale) return differ("postscale " + exact(mine.postscale), exact(theirs.postscale));
  if (mine.wire != theirs.wire) return differ(shown(mine.wire), shown(theirs.wire));
  if (mine.on_gpu != theirs.on_gpu) return differ(shown_way(mine.on_gpu), shown_way(theirs.on_gpu));
  return {};
}

void encode(const Description& description, Writer& out) {
  out.u8(std::uint8_t(description.verb)).u8(std::uint8_t(description.op)).i32(description.root);
  out.u8(std::uint8_t(description.wire)).u8(description.on_gpu).u64(std::bit_cast<std::uint64_t>(description.prescale));
  out.u64(std::bit_cast<std::uint64_t>(description.postscale)).u32(std::uint32_t(description.arrays.size()));
  for (const Array& array : description.arrays) {
    out.u8(std::uint8_t(array.dtype)).u32(std::uint32_t(array.shape.size()));
    for (const std::uint64_t dimension : array.shape) out.u64(dimension);
  }
}

Description decode_description(Reader& in) {
  Description description;
  const unsigned verb = in.u8();
  if (verb < unsigned(Verb::allreduce) || verb > unsigned(Verb::join))
    throw Error(ErrorCode::protocol, text("agenda message: no operation ", verb));
  description.verb = Verb(verb);
  description.op = Op(in.u8());
  if (name(description.op) == "?") throw Error(ErrorCode::protocol, "agenda message: unknown reduction");
  description.root = in.i32();
  if (const std::uint8_t wire = in.u8(); wire != 0) description.wire = checked(wire);
  const unsigned on_gpu = in.u8();
  if (on_gpu > 1) throw Error(ErrorCode::protocol, text("agenda message: no memory ", on_gpu));
  description.on_gpu = on_gpu == 1;
  description.prescale = std::bit_cast<double>(in.u64());
  description.postscale = std::bit_cast<double>(in.u64());
  const std::size_t arrays = in.u32();
  if (arrays > kMaxArrays) throw Error(ErrorCode::protocol, text("agenda message: ", arrays, " tensors"));
  for (std::size_t k = 0; k < arrays; k++) {
    Array& array = description.arrays.emplace_back();
    array.dtype = checked(in.u8());
    const std::size_t dimensions = in.u32();
    if (dimensions > kMaxDimensions)
      throw Error(ErrorCode::protocol, text("agenda message: ", dimensions, " dimensions"));
    for (std::size_t d = 0; d < dimensions; d++) array.shape.push_back(in.u64());
  }
  return description;
}

}  // namespace anello::agenda
