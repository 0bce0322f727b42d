// What identifies this host to the rendezvous. Any thread.
#pragma once
#include <string>

namespace anello::rendezvous {

std::string host_name();
// Equal for two processes where loopback is shared: one running kernel and one network namespace.
std::string machine();

}  // namespace anello::rendezvous
