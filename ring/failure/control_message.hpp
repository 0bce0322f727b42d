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

// The failure that all ranks agree on as the reason for the end of the world.
struct Verdict {
  ErrorCode code = ErrorCode::aborted;
  int culprit = -1;  // -1: no single rank
  std::string message;
};

// Identifies a stall: an operation, and the time without progress. Ranks ask about each stall once, and report it once.
// If a rank's operation has moved since the rank asked about it, the rank's next question has a new attempt number, so
// that earlier answers do not count. A rank that refused its call asks at once; then the period is 0.
struct StallKey {
  std::uint64_t group = 0, sequence = 0;
  std::chrono::milliseconds period{0};
  bool overdue = false;  // the period is the limit of operations, so the world must end
  std::uint32_t attempt = 0;
  friend auto operator<=>(const StallKey&, const StallKey&) = default;
};

// The answer of a member of the group about a stalled operation.
struct StallAnswer {
  // Values are part of the wire protocol: append only.
  enum class State : std::uint8_t {
    waits = 1,    // waits in the operation: nothing moves
    called,       // has called the operation, and moves its data or has completed it
    not_called,   // has the group, but has not called the operation
    no_group,     // has not made the group
    other_order,  // has not made the group; waits in a group with the same members in another order
    other_group,  // has not made the group; waits in another group with the same members in the same order
    refused,      // its call was refused: an argument is wrong, or memory is short
  };
  State state = State::waits;
  std::optional<NamedSignature> last;  // not_called: the rank's last operation in the group, if it called any
  // If the rank has not called the operation: the other operation in which it waits.
  std::optional<NamedSignature> waits_in;
  std::string waits_in_group;  // name of the group of `waits_in`
  std::string reason;          // if refused: why
};

struct ControlMessage {
  static constexpr std::size_t kMaxBytes = 4096;
  static constexpr std::size_t kMaxMessageBytes = 2048;  // text of a verdict
  static constexpr std::size_t kMaxCalls = 32;
  static constexpr std::size_t kMaxNameBytes = 256;     // name of a group
  static constexpr std::size_t kMaxCallNameBytes = 40;  // name of an operation
  static constexpr std::size_t kMaxReasonBytes = 256;   // text of a refusal
  static constexpr std::size_t kMaxRuns = 256;          // runs of ranks that a message lists (rank_runs.hpp)
  // Values are part of the wire protocol: append only.
  enum class Type : std::uint8_t { proposal = 1, decision, goodbye, waiting, stalled, answer, slow, called, refused };

  int origin = 0;            // the rank that sent the message first
  std::uint32_t number = 0;  // counts the origin's messages
  Type type = Type::proposal;
  // Each of the following members is set only in messages of the types that its comment names.
  Verdict verdict;                     // in proposal and decision
  Straggler straggler;                 // in slow
  std::uint64_t group = 0;             // in goodbye: the group; 0 is the world
  std::uint64_t completed = 0;         // in goodbye: operations of the group that the origin completed
  bool by_exception = false;           // in goodbye: an exception destroyed the origin's World
  std::uint32_t members_of_group = 0;  // in goodbye: number of members of the group
  // Set in stalled and answer. In stalled, it has the group and the sequence number of the operation in `calls`.
  StallKey stall;
  std::string group_name;  // in stalled
  // In stalled: the group's members in order; left out if they need more than kMaxRuns runs.
  std::vector<int> members;
  StallAnswer answer;             // in stalled and answer: the origin's own answer
  std::vector<int> contradicted;  // in called: ranks that sent the origin other counts than it expects
  // In goodbye: the group's last operations. In waiting, stalled and called: the operation. In refused: the operation's
  // group and number.
  std::vector<NamedSignature> calls;
};

std::string encode(const ControlMessage& message);

// Throws Error{protocol} if the bytes are not one message of a world of `world` ranks with one origin.
ControlMessage decode_control_message(std::string_view bytes, int world);

struct ControlMessageId {
  int origin = 0;
  std::uint32_t number = 0;
};

// The form in which messages are sent. The body is everything in a message except origin and number. An envelope has
// one body, and the ids of all messages with this body.
struct Envelope {
  std::vector<ControlMessageId> ids;  // there are at most max_ids(body) ids
  std::string_view body;
};
std::size_t max_ids(std::string_view body);
std::string encode(const Envelope& envelope);
// Except encode_body(), these functions throw Error{protocol}.
Envelope decode_envelope(std::string_view bytes, int world);  // the body is a part of `bytes`, and is not decoded
std::string encode_body(const ControlMessage& message);
ControlMessage decode_body(std::string_view body, int world);

}  // namespace anello::failure
