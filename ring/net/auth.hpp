// The job's secret: where it comes from, and the proof that a process has it (HMAC-SHA256, by OpenSSL's libcrypto where
// the build has it). Any thread. Knows nothing of sockets and messages; never logs or prints a secret.
#pragma once
#include <anello/settings.hpp>
#include <cstddef>
#include <string>
#include <string_view>

namespace anello::net {

inline constexpr std::size_t kMaxSecretBytes = 4096;
inline constexpr std::size_t kNonceBytes = 32, kProofBytes = 32;

// From ANELLO_SECRET_FD, else ANELLO_SECRET_FILE, else empty: no authentication. One newline at the end is not part of
// the secret. A descriptor is read once in the life of the process (remembered for later worlds) and closed; one that
// can seek is read from its start, so ranks may share it. A file of this user to which its group or others have any
// access is refused, as ssh does; of a file of another user (root's, mounted into a container) the group may be this
// user's. Blocks 2 s at most, for a pipe that is not yet filled. Throws Error{configuration, file}.
std::string read_secret(const Settings& settings);

// Throws Error{unsupported} if there is a secret and this build cannot use it.
void require_authentication(std::string_view secret);

// From the system's random source; the digits are hexadecimal, two for each byte.
std::string random_bytes(std::size_t count);
std::string random_digits(std::size_t bytes);

std::string make_secret();  // 64 hexadecimal digits; empty if this build cannot authenticate

// kProofBytes bytes. The secret is not empty and has passed require_authentication().
std::string hmac_sha256(std::string_view secret, std::string_view message);

// Takes the same time for all contents of one length.
bool same_bytes(std::string_view left, std::string_view right);

}  // namespace anello::net
