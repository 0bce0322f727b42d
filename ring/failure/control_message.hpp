// What the ranks tell each other over the control plane, as bytes. Pure.
#pragma once
#include <anello/error.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ring/base/signature.hpp"
#include "ring/failure/stragglers.hpp"

namespace anello {

// Why the world ends.
struct Verdict {
  ErrorCode code = ErrorCode::aborted;
  int culprit = -1;
  std::string message;
};

struct ControlMessage {
  static constexpr std::size_t kMaxBytes = 4096;
  static constexpr std::size_t kMaxMessageBytes = 2048;  // of a verdict
  static constexpr std::size_t kMaxSignatures = 32;
  enum class Type : std::uint8_t { proposal = 1, decision, goodbye, waiting, stalled, absent, slow };

  int origin = 0;            // the rank that speaks
  std::uint32_t number = 0;  // counts its frames
  Type type = Type::proposal;
  Verdict verdict;              // proposal, decision
  Straggler lag;                // slow
  std::uint64_t group = 0;      // goodbye, absent: from which; 0 is the world
  std::uint64_t completed = 0;  // goodbye: operations of the group
  std::uint64_t sequence = 0;   // absent: from the group's operation of that number
  // goodbye: of its last operations; waiting, stalled: of the one that does not get on; absent: of its last one, if any
  std::vector<Signature> signatures;
};

std::string encode(const ControlMessage& frame);

// Throws Error{protocol} if the bytes are no frame of a world of that size.
ControlMessage decode_control_message(std::string_view bytes, int world);

}  // namespace anello
