// The messages that the ranks flood over the control plane, and their encoding as bytes. Pure.
#pragma once
#include <anello/error.hpp>
#include <chrono>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ring/base/signature.hpp"
#include "ring/failure/stragglers.hpp"

namespace anello::failure {

// The failure that all ranks agree on: why the world ends.
struct Verdict {
  ErrorCode code = ErrorCode::aborted;
  int culprit = -1;  // -1: no single rank
  std::string message;
};

// Which stall: of that operation, after that time without progress. Each is asked about and reported once. A rank whose
// operation has moved since then asks with the next attempt, so that no answer to an earlier question counts. A rank
// that refused its call asks without waiting for a time: then the period is 0.
struct StallKey {
  std::uint64_t group = 0, sequence = 0;
  std::chrono::milliseconds period{0};
  bool overdue = false;  // the period is the limit of operations: the world should end
  std::uint32_t attempt = 0;
  friend auto operator<=>(const StallKey&, const StallKey&) = default;
};

// What a member of the group says about a stalled operation.
struct StallAnswer {
  // Values are part of the wire protocol: append only.
  enum class State : std::uint8_t {
    waits = 1,    // in the operation, and it moves nothing
    called,       // it called the operation and does not wait in it: it moves data, or is done
    not_called,   // it has the group
    no_group,     // it has not made the group
    other_order,  // the same; it waits in a group of the same members in another order
    other_group,  // the same; it waits in another group of the same members in the same order
    refused,      // its program called it, and the call was refused: an argument is wrong, or memory is short
  };
  State state = State::waits;
  std::optional<Call> last;      // not_called: its last operation in the group, if there was one
  std::optional<Call> waits_in;  // if it has not called the operation: the one that it waits in, if it does
  std::string waits_in_group;    // the name of that operation's group
  std::string reason;            // refused
};

struct ControlMessage {
  static constexpr std::size_t kMaxBytes = 4096;
  static constexpr std::size_t kMaxMessageBytes = 2048;  // of a verdict
  static constexpr std::size_t kMaxCalls = 32;
  static constexpr std::size_t kMaxNameBytes = 256;     // of a group
  static constexpr std::size_t kMaxCallNameBytes = 40;  // of an operation
  static constexpr std::size_t kMaxReasonBytes = 256;   // of a refusal
  static constexpr std::size_t kMaxRuns = 256;          // of ranks that a message names (rank_runs.hpp)
  // Values are part of the wire protocol: append only.
  enum class Type : std::uint8_t { proposal = 1, decision, goodbye, waiting, stalled, answer, slow, called, refused };

  int origin = 0;            // the rank that sent it first
  std::uint32_t number = 0;  // counts the origin's messages
  Type type = Type::proposal;
  Verdict verdict;                     // proposal, decision
  Straggler straggler;                 // slow
  std::uint64_t group = 0;             // goodbye: the group; 0 is the world
  std::uint64_t completed = 0;         // goodbye: operations of the group that the origin completed
  bool by_exception = false;           // goodbye: an exception destroyed the origin's World
  std::uint32_t members_of_group = 0;  // goodbye: how many
  StallKey stall;                      // stalled, answer; of `stalled`, group and sequence are those of its operation
  std::string group_name;              // stalled
  std::vector<int> members;            // stalled: of the group, in order; sent if they are kMaxRuns runs at most
  StallAnswer answer;                  // stalled, answer: what the origin says about it
  std::vector<int> contradicted;       // called: ranks that sent the origin other counts than it expects
  std::vector<Call> calls;             // goodbye: the group's last operations. waiting, stalled, called: the operation.
                                       // refused: its group and number
};

std::string encode(const ControlMessage& message);

// Throws Error{protocol} if the bytes are not a message of a world of that size, or are those of several origins.
ControlMessage decode_control_message(std::string_view bytes, int world);

struct ControlMessageId {
  int origin = 0;
  std::uint32_t number = 0;
};

// What travels: one body, which is all of a message except origin and number, with the ids of all messages that say it.
struct Envelope {
  std::vector<ControlMessageId> ids;  // max_ids(body) at most
  std::string_view body;
};
std::size_t max_ids(std::string_view body);
std::string encode(const Envelope& envelope);
// Both throw Error{protocol}.
Envelope decode_envelope(std::string_view bytes, int world);  // the body is part of the bytes, and not decoded
std::string encode_body(const ControlMessage& message);
ControlMessage decode_body(std::string_view body, int world);

}  // namespace anello::failure
