// How every connection opens, to the rendezvous and between ranks: a mutual HMAC-SHA256 challenge-response bound to
// job, generation, role, both ranks and both nonces. Without a secret the same messages go without proofs.
// At most 4 KiB and (for the accepting side) 2 s. Coroutines; run on the socket's executor.
//
//   connecting                         accepting
//   hello: version, role, job, generation, from, to, nonce  ->
//                                      <- challenge: nonce, proof
//   proof ->
//                                      <- accepted, or refused with the reason
#pragma once
#include <anello/error.hpp>
#include <asio/awaitable.hpp>
#include <asio/ip/tcp.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace anello {

inline constexpr std::uint16_t kProtocolVersion = 1;
inline constexpr std::chrono::milliseconds kHandshakeLimit{2000};

enum class Role : std::uint8_t { rendezvous = 1, data = 2, control = 3 };

// What both ends must share.
struct Credentials {
  std::string job;
  std::string secret;  // empty: no authentication
};

// What the connecting side says of itself. Ranks are -1 where they are not known yet (joining).
struct Claim {
  Role role = Role::rendezvous;
  std::uint32_t generation = 0;
  std::int32_t from = -1, to = -1;
};

// Connecting side. Throws Error{unauthorized} (with the other side's reason), {protocol}, {network}.
asio::awaitable<void> greet(asio::ip::tcp::socket& socket, const Credentials& credentials, const Claim& claim);

// Accepting side. `acceptable` says why a claim is refused, or an empty string; it is asked only after the proof held.
// Throws the same errors; the caller closes the socket and counts.
asio::awaitable<Claim> welcome(asio::ip::tcp::socket& socket, const Credentials& credentials,
                               const std::function<std::string(const Claim&)>& acceptable);

}  // namespace anello
