// The job's secret: how it is made, read and compared. Any thread. Independent of sockets and messages; never logs or
// prints a secret.
#pragma once
#include <anello/settings.hpp>
#include <cstddef>
#include <string>
#include <string_view>

namespace anello::net {

inline constexpr std::size_t kMaxSecretBytes = 4096;
inline constexpr std::size_t kNonceBytes = 32;

// Reads the secret from ANELLO_SECRET_FD, else ANELLO_SECRET_FILE. If neither is set, returns an empty text: no
// authentication. One newline at the end is not part of the secret. A descriptor is read once in the life of the
// process (its secret is kept for later worlds) and closed; if it can seek, it is read from its start, so that ranks
// may share it. A file of this user is refused if its group or others have any access, as in ssh. A file of another
// user (of root, for example, mounted into a container) may be readable by its group, if that is this user's. Blocks
// for at most 2 s, for a pipe that is not filled yet. Throws Error{configuration, file}.
std::string read_secret(const Settings& settings);

// Taken from the system's random source. random_digits() returns two hexadecimal digits for each byte.
std::string random_bytes(std::size_t count);
std::string random_digits(std::size_t bytes);

std::string make_secret();  // 64 hexadecimal digits; empty if this build cannot authenticate

// Compares in the same time for all contents of one length.
bool same_bytes(std::string_view left, std::string_view right);

}  // namespace anello::net
