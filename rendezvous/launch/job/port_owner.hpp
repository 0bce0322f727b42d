// Finds the process that has a TCP port of this host, for messages. Linux: reads /proc. Any thread.
#pragma once
#include <cstdint>
#include <string>

namespace anello::launch {

// Returns "process 4711 (python3)", or "another program" if the process is not visible to this user.
std::string port_owner(std::uint16_t port);

}  // namespace anello::launch
