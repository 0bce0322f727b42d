// Passing descriptors to another process of this host: Unix sockets under names of Linux' own kind, which leave no file
// behind. Nothing here waits; what is asked for has been sent before. All throw Error{network}.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ring/base/descriptor.hpp"

namespace anello {

Descriptor listen_as(std::string_view name);
Descriptor connect_to(std::string_view name);

// A token, and two descriptors beside it at most.
void send_with(const Descriptor& socket, std::string_view token, std::span<const int> descriptors);
// Throws Error{protocol} unless what has come is the token with so many descriptors.
std::vector<Descriptor> receive_with(const Descriptor& socket, std::string_view token, std::size_t expected);

// The connection on which the token came, and the one descriptor beside it. Strangers may have called as well.
std::pair<Descriptor, Descriptor> accept_with(const Descriptor& listener, std::string_view token);

}  // namespace anello
