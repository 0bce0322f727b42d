// The messages that the agendas of two ranks exchange: lists of items. Reports go up the tree of ranks, decisions down.
// Values. Pure.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ring/agenda/description.hpp"

namespace anello::agenda {

inline constexpr std::uint32_t kNoNumber = UINT32_MAX;
inline constexpr std::size_t kMaxKeyBytes = 4096;

// Why one operation fails on all ranks.
struct Refusal {
  std::int32_t culprit = -1;  // in the group; -1: it is not clear who is at fault
  std::string why;
  friend bool operator==(const Refusal&, const Refusal&) = default;
};

// The ranks that described an operation in one way.
struct Party {
  Description description;
  std::int32_t lowest = -1;
  std::uint32_t ranks = 0;
};
inline constexpr std::size_t kMaxParties = 16;  // of one operation; others are not counted

struct Item {
  // Values are part of the wire protocol: append only.
  enum class Type : std::uint8_t {
    ready = 1,   // report: every rank of the sender's subtree has submitted the operation, or has joined
    joined,      // report: every rank of the subtree has joined
    run,         // decision: the operation starts now
    refused,     // decision: the operation fails
    all_joined,  // decision: every rank has joined
  };

  Type type = Type::ready;
  std::uint32_t number = kNoNumber;                   // of the key, if it has one, or, with the key, is given one
  std::string key;                                    // sent if the receiver does not have its number
  std::optional<Description> description;             // sent if it is not that of the last time
  std::int32_t described_by = -1;                     // ready: the lowest rank whose description this is
  std::uint32_t ranks = 1;                            // ready: how many ranks have it
  std::vector<Party> parties;                         // ready: ranks differ; then there is no other description
  std::vector<std::pair<std::int32_t, Sizes>> sizes;  // by rank; sent if they are not those of the last time
  std::optional<Refusal> refusal;                     // ready: a rank cannot take part. refused
  std::int32_t absent = -1;                           // ready: a rank that has joined and did not submit the operation
  std::int32_t last = -1;                             // joined, all_joined: the rank that joined last
};

void encode(const Item& item, Writer& out);
// Throws Error{protocol} if the bytes are not items of a group of that many ranks.
std::vector<Item> decode_items(std::string_view message, int ranks);

}  // namespace anello::agenda
