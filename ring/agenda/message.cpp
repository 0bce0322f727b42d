#include "ring/agenda/message.hpp"

#include <anello/error.hpp>

#include "ring/base/text.hpp"

namespace anello::agenda {
namespace {

constexpr std::size_t kMaxWhyBytes = 1 << 16;

enum Part : std::uint8_t {
  kNumber = 1,
  kKey = 2,
  kDescription = 4,
  kSizes = 8,
  kRefusal = 16,
  kAbsent = 32,
  kParties = 64,
  kRanks = 128  // `ranks` is greater than 1
};

std::int32_t rank_of(Reader& in, int ranks) {
  const std::int32_t rank = in.i32();
  if (rank < 0 || rank >= ranks) throw Error(ErrorCode::protocol, text("agenda message: no rank ", rank));
  return rank;
}

void encode_operation(const Item& item, Writer& out) {
  out.u8(std::uint8_t((item.number != kNoNumber ? kNumber : 0) | (item.key.empty() ? 0 : kKey) |
                      (item.description ? kDescription : 0) | (item.sizes.empty() ? 0 : kSizes) |
                      (item.refusal ? kRefusal : 0) | (item.absent >= 0 ? kAbsent : 0) |
                      (item.parties.empty() ? 0 : kParties) | (item.ranks > 1 ? kRanks : 0)));
  if (item.number != kNoNumber) out.u32(item.number);
  if (!item.key.empty()) out.str(item.key);
  if (item.type == Item::Type::ready) out.i32(item.described_by);
  if (item.ranks > 1) out.u32(item.ranks);
  if (item.description) encode(*item.description, out);
  if (!item.sizes.empty()) {
    out.u32(std::uint32_t(item.sizes.size()));
    for (const auto& [rank, sizes] : item.sizes) {
      out.i32(rank).u32(std::uint32_t(sizes.size()));
      for (const std::uint64_t size : sizes) out.u64(size);
    }
  }
  if (item.refusal) out.i32(item.refusal->culprit).str(item.refusal->why.substr(0, kMaxWhyBytes));
  if (item.absent >= 0) out.i32(item.absent);
  if (item.parties.empty()) return;
  out.u8(std::uint8_t(item.parties.size()));
  for (const Party& party : item.parties) {
    encode(party.description, out);
    out.i32(party.lowest).u32(party.ranks);
  }
}

Sizes decode_sizes(Reader& in) {
  const std::size_t count = in.u32();
  if (count > in.left() / sizeof(std::uint64_t)) throw Error(ErrorCode::protocol, "agenda message: it is cut off");
  Sizes sizes;
  for (std::size_t k = 0; k < count; k++) sizes.push_back(in.u64());
  return sizes;
}

std::uint32_t count_of_ranks(Reader& in, int ranks) {
  const std::uint32_t count = in.u32();
  if (count < 1 || count > std::uint32_t(ranks))
    throw Error(ErrorCode::protocol, text("agenda message: ", count, " of ", ranks, " ranks"));
  return count;
}

Refusal decode_refusal(Reader& in, int ranks) {
  Refusal refusal;
  refusal.culprit = in.i32();
  if (refusal.culprit < -1 || refusal.culprit >= ranks)
    throw Error(ErrorCode::protocol, text("agenda message: no rank ", refusal.culprit));
  refusal.why = in.str(kMaxWhyBytes);
  return refusal;
}

std::vector<Party> decode_parties(Reader& in, int ranks) {
  std::vector<Party> parties(in.u8());
  if (parties.size() < 2 || parties.size() > kMaxParties)
    throw Error(ErrorCode::protocol, text("agenda message: ", parties.size(), " parties"));
  for (Party& party : parties) {
    party.description = decode_description(in);
    party.lowest = rank_of(in, ranks);
    party.ranks = count_of_ranks(in, ranks);
  }
  return parties;
}

void decode_operation(Reader& in, int ranks, Item& item) {
  const unsigned parts = in.u8();
  if (!(parts & (kNumber | kKey))) throw Error(ErrorCode::protocol, "agenda message: an operation without a name");
  if (parts & kNumber) item.number = in.u32();
  if (parts & kKey) item.key = in.str(kMaxKeyBytes);
  if (item.type == Item::Type::ready) item.described_by = rank_of(in, ranks);
  if (parts & kRanks) item.ranks = count_of_ranks(in, ranks);
  if (parts & kDescription) item.description = decode_description(in);
  if (parts & kSizes) {
    const std::uint32_t lists = in.u32();
    for (std::uint32_t k = 0; k < lists; k++) {
      const std::int32_t rank = rank_of(in, ranks);
      item.sizes.emplace_back(rank, decode_sizes(in));
    }
  }
  if (parts & kRefusal) item.refusal = decode_refusal(in, ranks);
  if (parts & kAbsent) item.absent = rank_of(in, ranks);
  if (parts & kParties) item.parties = decode_parties(in, ranks);
}

}  // namespace

void encode(const Item& item, Writer& out) {
  out.u8(std::uint8_t(item.type));
  if (item.type == Item::Type::joined || item.type == Item::Type::all_joined)
    out.i32(item.last);
  else
    encode_operation(item, out);
}

std::vector<Item> decode_items(std::string_view message, int ranks) {
  Reader in("agenda", message);
  std::vector<Item> items;
  while (in.left() > 0) {
    Item& item = items.emplace_back();
    const unsigned type = in.u8();
    if (type < unsigned(Item::Type::ready) || type > unsigned(Item::Type::run_with_next))
      throw Error(ErrorCode::protocol, text("agenda message: no item of type ", type));
    item.type = Item::Type(type);
    if (item.type == Item::Type::joined || item.type == Item::Type::all_joined)
      item.last = rank_of(in, ranks);
    else
      decode_operation(in, ranks, item);
  }
  return items;
}

}  // namespace anello::agenda
