// Passes descriptors to another process of this host over Unix sockets with abstract names (unix(7)). Such a socket
// leaves no file behind. No function blocks, so receive only after the other side has sent. All functions throw
// Error{network}.
#pragma once
#include <sys/types.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ring/base/descriptor.hpp"

namespace anello::shm {

Descriptor listen_as(std::string_view name);
Descriptor connect_to(std::string_view name);
Descriptor accept_from(const Descriptor& listener);
uid_t user_of(const Descriptor& socket);  // effective user id of the process that connected

// Sends at most two descriptors. `bytes` must be so few that they fit into any socket's buffer.
void send_fd_message(const Descriptor& socket, std::string_view bytes, std::span<const int> descriptors);

struct FdMessage {
  std::string bytes;
  std::vector<Descriptor> descriptors;
};
FdMessage receive_fd_message(const Descriptor& socket, std::size_t bytes);

}  // namespace anello::shm
