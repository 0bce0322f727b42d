// How a rank identifies its host to the rendezvous. Any thread.
#pragma once
#include <string>

namespace anello::rendezvous {

std::string host_name();
// Returns a text that is equal for two processes if they share loopback: one running kernel and one network namespace.
std::string machine();

}  // namespace anello::rendezvous
