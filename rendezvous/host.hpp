// How a rank identifies its host to the rendezvous. Any thread.
#pragma once
#include <string>

namespace anello::rendezvous {

std::string host_name();
// Equal for two processes that share loopback, which is one running kernel and one network namespace.
std::string machine();

}  // namespace anello::rendezvous
