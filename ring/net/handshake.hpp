// The handshake that opens every connection to the rendezvous and between ranks: a mutual HMAC-SHA256
// challenge-response bound to version, role, job, generation, both ranks and both nonces. Without a secret the same
// messages are sent without proofs. It takes at most 4 KiB. The accepting side waits 2 s for `hello`. These functions
// are coroutines; run them on the socket's executor, which must run one handler at a time. Close a socket whose
// handshake failed.
//
//   connecting                         accepting
//   hello: role, job, generation, incarnation, from, to, lane, group, nonce  ->
//                                      <- challenge: nonce
//   proof                              ->
//                                      <- accepted: proof
//   taken                              ->                               only between ranks
// Any process may connect, so the accepting side proves last and reveals nothing before the other side's proof. At any
// point either side may answer with `refused` and the reason. Between ranks the connecting side decides whether the
// connection counts, because it may give up and connect again just when `accepted` is sent. On other connections the
// connecting side sends the first message anyway, so `taken` is not needed. Each frame begins with the protocol's
// version and the frame's length. This beginning and `refused` are the same in all versions, so both sides refuse an
// unknown version with a message that names it.
#pragma once
#include <anello/error.hpp>
#include <asio/awaitable.hpp>
#include <asio/ip/tcp.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "ring/trace/rejected_connections.hpp"

namespace anello::net {

inline constexpr std::uint16_t kProtocolVersion = 14;
inline constexpr std::chrono::milliseconds kHandshakeLimit{2000};
// The connecting side waits for this time, which is longer than the accepting side waits for `hello`, because the
// accepting side may be slow to accept. After a `hello` with the right job, the accepting side also waits for this
// time: if many ranks share a core, each further message takes a good part of a second.
inline constexpr std::chrono::milliseconds kConnectHandshakeLimit{10000};
inline constexpr std::size_t kMaxJobBytes = 255;

enum class Role : std::uint8_t { rendezvous = 1, data, control, launcher, ping, agent };

// The values that must be equal on both sides.
struct Credentials {
  std::string job;
  std::string secret;  // empty: no authentication
};

// Both sides of a handshake call this; a server calls it before it listens. Throws Error{unsupported} if there is a
// secret but this build cannot authenticate, and Error{configuration} if the job's name is too long.
void require_usable(const Credentials& credentials);

// The identity that the connecting side claims. A rank is -1 if no rank has been assigned yet (a process that joins),
// or if there is none (the launcher).
struct Claim {
  Role role = Role::rendezvous;
  std::uint32_t generation = 0;
  std::int32_t from = -1, to = -1;
  std::uint32_t lane = 0;   // number among the connections between the two ranks
  std::uint64_t group = 0;  // the group whose data the connection carries; 0 is the world
  std::uint64_t incarnation = 0;
};

// The reason why a connection is refused.
struct Rejection {
  trace::RejectReason kind;
  std::string why;
};
using Check = std::function<std::optional<Rejection>(const Claim&)>;

// The reason why a handshake failed.
class HandshakeError : public Error {
 public:
  // The error code of the Error is less precise than `reason`: {network}, {timed_out}, {protocol} or {unauthorized}.
  HandshakeError(trace::RejectReason reason, const std::string& message);
  trace::RejectReason reason() const { return reason_; }

 private:
  trace::RejectReason reason_;
};

// Runs the connecting side. Throws HandshakeError (with the other side's reason), and the errors of require_usable().
asio::awaitable<void> connect_handshake(asio::ip::tcp::socket& socket, const Credentials& credentials, Claim claim,
                                        std::chrono::milliseconds limit = kConnectHandshakeLimit);

// Runs the accepting side. Calls `acceptable` only after a correct proof, and passes its exceptions on. Between ranks,
// the wait for the message `taken` has no limit, because the other side has authenticated. Throws like
// connect_handshake(). The caller closes the socket and counts the rejection.
asio::awaitable<Claim> accept_handshake(asio::ip::tcp::socket& socket, const Credentials& credentials,
                                        Check acceptable);

}  // namespace anello::net
