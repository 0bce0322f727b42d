// The proof that a process has the job's secret: HMAC-SHA256, by OpenSSL's libcrypto if the build includes it. Any
// thread.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace anello::net {

inline constexpr std::size_t kProofBytes = 32;

// Throws Error{unsupported} if there is a secret and this build cannot use it.
void require_authentication(std::string_view secret);

// Returns kProofBytes bytes. The secret must not be empty, and must have passed require_authentication(). Throws
// Error{network} if OpenSSL refuses the call. OpenSSL refuses calls once the process has begun to exit, because it
// frees its locks then, while threads of this library may still be in a handshake.
std::string hmac_sha256(std::string_view secret, std::string_view message);

}  // namespace anello::net
