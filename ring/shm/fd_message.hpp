// Passing descriptors to another process of this host: Unix sockets under names of Linux' own kind, which leave no file
// behind. Nothing here waits; what is asked for has been sent before. All throw Error{network}.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ring/base/descriptor.hpp"

namespace anello {

inline constexpr int kMaxCallers = 8;  // that wait to be accepted

Descriptor listen_as(std::string_view name);
Descriptor connect_to(std::string_view name);
Descriptor accept_from(const Descriptor& listener);

// Some bytes, few enough for any socket's buffer, and beside them two descriptors at most.
void send_fd_message(const Descriptor& socket, std::string_view bytes, std::span<const int> descriptors);

struct FdMessage {
  std::string bytes;
  std::vector<Descriptor> descriptors;
};
FdMessage receive_fd_message(const Descriptor& socket, std::size_t bytes);

}  // namespace anello
