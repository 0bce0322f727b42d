// The messages that the server's state machines want to be sent.
#pragma once
#include <chrono>
#include <cstdint>
#include <vector>

#include "rendezvous/protocol/protocol.hpp"

namespace anello::rendezvous {

using Time = std::chrono::steady_clock::time_point;
using MemberId = std::uint64_t;  // the caller's number for a connection, never used again

struct Send {
  std::vector<MemberId> to;
  Reply reply;
};
using Sends = std::vector<Send>;

}  // namespace anello::rendezvous
