// The messages that the agendas of two ranks exchange: lists of items. Reports go up the tree of ranks, decisions go
// down. Values. Pure.
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

// The reason why one operation fails on all ranks.
struct Refusal {
  std::int32_t culprit = -1;  // rank in the group; -1: it is not clear who is at fault
  std::string why;
  friend bool operator==(const Refusal&, const Refusal&) = default;
};

// The ranks that gave the same description of an operation.
struct Party {
  Description description;
  std::int32_t lowest = -1;
  std::uint32_t ranks = 0;
};
inline constexpr std::size_t kMaxParties = 16;  // maximum for one operation; further descriptions are dropped

struct Item {
  // Values are part of the wire protocol: append only.
  enum class Type : std::uint8_t {
    ready = 1,      // report: every rank of the sender's subtree has submitted the operation or has joined
    joined,         // report: every rank of the sender's subtree has joined
    run,            // decision: the operation starts now
    refused,        // decision: the operation fails
    all_joined,     // decision: every rank has joined
    run_with_next,  // decision: like run, and carried out as one list with the next decision
  };

  Type type = Type::ready;
  std::uint32_t number = kNoNumber;        // the key's number; if `key` is also sent, this number is given to the key
  std::string key;                         // sent if the receiver does not have the key's number
  std::optional<Description> description;  // sent if it differs from the last description that was sent
  std::int32_t described_by = -1;          // ready: the lowest rank with this description
  std::uint32_t ranks = 1;                 // ready: how many ranks have this description
  std::vector<Party> parties;              // ready: set instead of `description` if descriptions differ
  std::vector<std::pair<std::int32_t, Sizes>> sizes;  // by rank; sent if they differ from the last sizes that were sent
  std::optional<Refusal> refusal;                     // ready: a rank cannot take part; refused: the reason
  std::int32_t absent = -1;                           // ready: a rank that has joined and did not submit the operation
  std::int32_t last = -1;                             // joined, all_joined: the rank that joined last
};

void encode(const Item& item, Writer& out);
// Throws Error{protocol} if the bytes are not a list of items of a group with `ranks` ranks.
std::vector<Item> decode_items(std::string_view message, int ranks);

}  // namespace anello::agenda
