// The messages that the ranks flood over the control plane, and their encoding as bytes. Pure.
#pragma once
#include <anello/error.hpp>
#include <cstdint>
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

struct ControlMessage {
  static constexpr std::size_t kMaxBytes = 4096;
  static constexpr std::size_t kMaxMessageBytes = 2048;  // of a verdict
  static constexpr std::size_t kMaxSignatures = 32;
  // Values are part of the wire protocol: append only.
  enum class Type : std::uint8_t { proposal = 1, decision, goodbye, waiting, stalled, absent, slow };

  int origin = 0;            // the rank that sent it first
  std::uint32_t number = 0;  // counts the origin's messages
  Type type = Type::proposal;
  Verdict verdict;              // proposal, decision
  Straggler straggler;          // slow
  std::uint64_t group = 0;      // goodbye, absent: the group; 0 is the world
  std::uint64_t completed = 0;  // goodbye: operations of the group that the origin completed
  bool by_exception = false;    // goodbye: an exception destroyed the origin's World
  std::uint32_t members = 0;    // goodbye: of the group
  std::uint64_t sequence = 0;   // absent: number of the group's operation that the origin has not begun
  // goodbye: the group's last operations. waiting, stalled: the operation that makes no progress. absent: the group's
  // last operation, if there is one.
  std::vector<Signature> signatures;
};

std::string encode(const ControlMessage& message);

// Throws Error{protocol} if the bytes are not a message of a world of that size.
ControlMessage decode_control_message(std::string_view bytes, int world);

}  // namespace anello::failure
