// The ports at which a rank that has only the job's name looks for the job's rendezvous. Pure.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "ring/net/addresses.hpp"

namespace anello::rendezvous {

inline constexpr net::PortRange kUsualPorts{20000, 29999};  // systems do not use these ports for outgoing connections

// Returns ports computed from the job's name. The server uses the first port that is free. `range`: ANELLO_PORT_RANGE;
// empty: kUsualPorts. Throws Error{configuration}.
std::vector<std::uint16_t> job_ports(std::string_view job, std::string_view range);

// Returns a number computed from the job's name. It is the same on all hosts and in all builds.
std::uint64_t job_hash(std::string_view job);

}  // namespace anello::rendezvous
