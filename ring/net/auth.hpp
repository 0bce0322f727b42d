// The job's secret: how it is made, read and compared. Any thread. Uses no sockets and messages; never logs or prints a
// secret.
#pragma once
#include <anello/settings.hpp>
#include <cstddef>
#include <string>
#include <string_view>

namespace anello::net {

inline constexpr std::size_t kMaxSecretBytes = 4096;
inline constexpr std::size_t kNonceBytes = 32;

// Reads the secret from ANELLO_SECRET_FD, or if that is not set, from ANELLO_SECRET_FILE. If neither is set, returns an
// empty text: no authentication. One newline at the end is not part of the secret. A descriptor is read once in the
// life of the process (its secret is kept for later worlds) and closed; if it can seek, it is read from its start, so
// that ranks may share it. A file of this user is refused if its group or others have any access, as in ssh. A file of
// another user (such as root, in a container's mount) may be readable by its group if this user is in that group.
// Blocks for at most 2 s, for a pipe that is not filled yet. Throws Error{configuration, file}.
std::string read_secret(const Settings& settings);

// Both functions use the system's random source. random_digits() returns two hexadecimal digits for each byte.
std::string random_bytes(std::size_t count);
std::string random_digits(std::size_t bytes);

std::string make_secret();  // 64 hexadecimal digits; empty if this build cannot authenticate

// Compares two texts. The time depends only on their length, so that it shows nothing about the secret.
bool same_bytes(std::string_view left, std::string_view right);

}  // namespace anello::net
