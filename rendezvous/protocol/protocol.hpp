// The messages between ranks and the rendezvous server after the handshake, as data and as bytes. Pure: no I/O.
// On the wire a message is framed (ring/net/message_channel.hpp); these functions make and read its body. All input is
// bounded here, and names are made safe to print. The handshake carries the protocol's version.
#pragma once
#include <anello/error.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace anello::rendezvous {

inline constexpr int kMaxRanks = 1 << 20;
inline constexpr std::size_t kMaxNameBytes = 255;
inline constexpr std::size_t kMaxBlobBytes = 64 << 10;
inline constexpr std::size_t kMaxReasonBytes = 4096;
// Limits of the body of a message: kMaxRequestBytes of a message to the server, kMaxReplyBytes of a message from the
// server. kMaxReplyBytes also limits the sum of all blobs of an exchange.
inline constexpr std::size_t kMaxRequestBytes = kMaxBlobBytes + 64;
inline constexpr std::size_t kMaxReplyBytes = 256 << 20;

// Messages from a rank. If a rank, size or local rank is -1, the server decides.
struct Join {
  std::string host;     // the name of the host, for texts
  std::string machine;  // equal for ranks that share loopback (rendezvous/protocol/host.hpp)
  std::string address;  // numeric; where the rank will listen
  std::uint32_t pid = 0, parent = 0;
  std::int32_t rank = -1, size = -1, local_rank = -1;
  std::chrono::milliseconds patience{60000};  // how long the rank waits for the other ranks, from now on
  std::chrono::milliseconds age{0};           // age of the rank's process
  bool elastic = false;                       // true if the process goes on in further worlds when ranks die or join
  std::int32_t place = -1;                    // the process's number at its launcher; a replacement gets it too
};
struct Contribution {  // a rank's part of an exchange, which is complete when every rank has sent one
  std::string blob;
  std::chrono::milliseconds patience{60000};
};
struct Leave {             // the rank has started, and does not need the server any more
  std::uint16_t port = 0;  // port on which the rank listens; 0: it does not listen
};
struct Fail {  // the rank could not start
  std::string reason;
  std::int32_t rank = -1;  // the rank that failed; -1: the sender
};
struct Arrive {};  // the rank has chosen this connection, and is about to join

// Further messages from a process of an elastic job, which keeps its connection from world to world.
struct Enter {                   // the process is ready for the next world
  std::uint32_t generation = 0;  // the world from which the process comes; 0: it was in no world
};
struct Begun {};  // the process has its state, and begins to train in the world
struct Commits {  // the answer to AskCommits: the process will not pass its next commit before it gets the Boundary
  std::uint64_t count = 0;
};
struct Present {};  // the answer to AskPresence
struct Done {};     // the process's training has ended
struct Retire {};   // the process asks to leave at the next commit
using Request = std::variant<Join, Contribution, Leave, Fail, Arrive, Enter, Begun, Commits, Present, Done, Retire>;

// Messages from the server.
// The limits of an elastic job. One of its processes goes on as the server with these limits if this server ends.
struct Inherited {
  std::int32_t min = 1, max = 0;  // ranks of a world; max 0: no process may go on as the server
  std::chrono::milliseconds patience{0}, silence{0};
};
struct Assigned {
  std::uint32_t generation = 1;
  std::int32_t rank = 0, size = 1, local_rank = 0, local_size = 1, node_rank = 0, node_count = 1;
  std::string host;               // the rank's host; its name differs from those of all other hosts
  std::uint64_t incarnation = 0;  // random number of the server
  bool begun = false;             // a world of this elastic job has begun to train before
  std::string change;             // the changes since the last world of this elastic job, for the log
  Inherited inherited;
};
struct Gathered {
  std::vector<std::string> blobs;  // by rank; equal parts are sent once (rendezvous/protocol/delta_coding.hpp)
};
struct Failed {  // the start-up has failed
  ErrorCode code = ErrorCode::rendezvous;
  std::int32_t rank = -1;  // the culprit; -1: unknown
  std::string message;
};
struct ComeAgain {};  // the rank belongs to the next start, which cannot begin here until the current start is over

// Further messages to a process of an elastic job.
struct Again {  // the world cannot start, because one of its processes has ended; this process must enter again
  std::string reason;
};
struct AskPresence {};  // answered by the process even while it computes
struct AskCommits {};   // the world is about to change as planned
struct Boundary {       // the world ends at this commit, or at the next commit if this process has already passed it
  std::uint64_t commit = 0;
};
struct Over {};  // the other processes have finished, so this process is not needed
using Reply = std::variant<Assigned, Gathered, Failed, ComeAgain, Again, AskPresence, AskCommits, Boundary, Over>;

// Throws Error{invalid_argument} if an exchange cannot carry a blob of this size.
void require_exchangeable(std::size_t blob_bytes);
std::string encode(const Request& request);
std::string encode(const Reply& reply);
// Both functions throw Error{protocol} that names the invalid field.
Request decode_request(std::string_view body);
Reply decode_reply(std::string_view body);

}  // namespace anello::rendezvous
