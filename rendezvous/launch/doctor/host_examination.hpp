// Examines this host for `anello doctor`: the build, the system, limits, GPUs and settings. Changes nothing.
#pragma once
#include <string>

#include "rendezvous/launch/doctor/findings.hpp"

namespace anello::launch {

// `try_server`: also connects to the rendezvous server that the settings name, for at most 5 s.
Findings examine_host(bool try_server);

// Describes the interface that has this address, with its maximum packet size: "eth0, MTU 1500".
std::string describe_interface(const std::string& address);

}  // namespace anello::launch
