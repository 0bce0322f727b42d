// What ranks and the rendezvous server say to each other after the handshake, as data and as bytes. Pure: no I/O.
// A frame on the wire is its length (u32) and a body; these functions make and read bodies. Everything that comes
// from outside is bounded here, and names are made safe to print. Versioned by the handshake.
#pragma once
#include <anello/error.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace anello::rendezvous {

inline constexpr int kRanksMost = 1 << 20;
inline constexpr std::size_t kMaxNameBytes = 255;
inline constexpr std::size_t kMaxBlobBytes = 64 << 10;
inline constexpr std::size_t kMaxReasonBytes = 4096;
// Whole bodies, to the server and from it.
inline constexpr std::size_t kMaxRequestBytes = kMaxBlobBytes + 64;
inline constexpr std::size_t kMaxReplyBytes = 256 << 20;

// From a rank. -1: not given, the server decides.
struct Join {
  std::string host;     // its name, for people
  std::string machine;  // equal where loopback is shared: one running kernel, one network namespace
  std::string address;  // numeric; where the rank will listen
  std::uint32_t pid = 0;
  std::int32_t rank = -1, size = -1, local_rank = -1;
  std::chrono::milliseconds patience{60000};  // how long it waits for the others, now
};
struct Contribution {  // its part of an all-gather; complete when every rank has sent one
  std::string blob;
  std::chrono::milliseconds patience{60000};
};
struct Leave {             // in good order; it needs the server no more
  std::uint16_t port = 0;  // where it listens; 0: nowhere
};
struct Fail {  // it could not start
  std::string reason;
};
using Request = std::variant<Join, Contribution, Leave, Fail>;

// From the server.
struct Assigned {
  std::uint32_t generation = 1;
  std::int32_t rank = 0, size = 1, local_rank = 0, local_size = 1, node_rank = 0, node_count = 1;
  std::string host;  // the joiner's, made different from other hosts of the same name
};
struct Gathered {
  std::vector<std::string> blobs;  // by rank
};
struct Failed {  // the start-up is over for this rank
  ErrorCode code = ErrorCode::rendezvous;
  std::int32_t rank = -1;  // the culprit, where it has one
  std::string message;
};
using Reply = std::variant<Assigned, Gathered, Failed>;

std::string encode(const Request& request);
std::string encode(const Reply& reply);
// Throw Error{protocol} that says what does not fit.
Request decode_request(std::string_view body);
Reply decode_reply(std::string_view body);

}  // namespace anello::rendezvous
