// How every connection opens, to the rendezvous and between ranks: a mutual HMAC-SHA256 challenge-response bound to
// version, role, job, generation, both ranks and both nonces. Without a secret the same messages go without proofs.
// At most 4 KiB. On the accepting side, 2 s until `hello`. Coroutines; run on the socket's executor, which must
// run one handler at a time. Close a socket whose handshake failed.
//
//   connecting                         accepting
//   hello: role, job, generation, incarnation, from, to, lane, group, nonce  ->
//                                      <- challenge: nonce
//   proof                              ->
//                                      <- accepted: proof
//   taken                              ->                               between ranks only
// The accepting side, which anybody may connect to, proves last, so that it gives nothing away. At any point either
// side may answer with `refused` and the reason. Between ranks the connecting side decides whether the connection
// holds: it may have given up, and connect again, just when `accepted` was sent. On other connections it speaks first
// in any case. Each frame begins with the protocol's version and its own length; this
// beginning and `refused` are the same in all versions, so an unknown version is refused by name, on both sides.
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

inline constexpr std::uint16_t kProtocolVersion = 9;
inline constexpr std::chrono::milliseconds kHandshakeLimit{2000};
// The connecting side waits longer: the other one may be slow to accept. So does the accepting side after a `hello`
// that knows the job: where many ranks share a core, each further message takes a good part of a second.
inline constexpr std::chrono::milliseconds kConnectHandshakeLimit{10000};
inline constexpr std::size_t kMaxJobBytes = 255;

enum class Role : std::uint8_t { rendezvous = 1, data, control, launcher, ping, agent };

// What both ends must share.
struct Credentials {
  std::string job;
  std::string secret;  // empty: no authentication
};

// Throws Error{unsupported} (a secret, in a build without authentication) or {configuration} (the job's name is too
// long). Both sides of a handshake call it; a server calls it before it listens.
void require_usable(const Credentials& credentials);

// What the connecting side claims to be. Ranks are -1 where they are not known yet (joining) or there is none (the
// launcher).
struct Claim {
  Role role = Role::rendezvous;
  std::uint32_t generation = 0;
  std::int32_t from = -1, to = -1;
  std::uint32_t lane = 0;   // which of several connections between the two
  std::uint64_t group = 0;  // whose data it is for; 0 is the world
  std::uint64_t incarnation = 0;
};

// Why a connection is refused.
struct Rejection {
  trace::RejectReason kind;
  std::string why;
};
using Check = std::function<std::optional<Rejection>(const Claim&)>;

// Why a handshake failed.
class HandshakeError : public Error {
 public:
  // The error code is coarser: {network}, {timed_out}, {protocol} or {unauthorized}.
  HandshakeError(trace::RejectReason reason, const std::string& message);
  trace::RejectReason reason() const { return reason_; }

 private:
  trace::RejectReason reason_;
};

// Connecting side. Throws HandshakeError (with the other side's reason), and what require_usable() throws.
asio::awaitable<void> connect_handshake(asio::ip::tcp::socket& socket, const Credentials& credentials, Claim claim,
                                        std::chrono::milliseconds limit = kConnectHandshakeLimit);

// Accepting side. `acceptable` is called only after the proof was correct; what it throws is thrown. Between ranks, the
// wait for `taken` has no limit: the other side has authenticated. Throws the same; the caller closes the socket and
// counts the rejection.
asio::awaitable<Claim> accept_handshake(asio::ip::tcp::socket& socket, const Credentials& credentials,
                                        Check acceptable);

}  // namespace anello::net
