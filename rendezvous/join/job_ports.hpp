// The ports at which a job's rendezvous may be found when ranks have only the job's name. Pure.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "ring/net/addresses.hpp"

namespace anello::rendezvous {

inline constexpr net::PortRange kUsualPorts{20000, 29999};  // systems do not give them to outgoing connections

// Returns ports that follow from the job's name; the first that is free is used. `range` is ANELLO_PORT_RANGE; empty:
// kUsualPorts. Throws Error{configuration}.
std::vector<std::uint16_t> job_ports(std::string_view job, std::string_view range);

// A number that follows from the job's name, the same on all hosts and in all builds.
std::uint64_t job_hash(std::string_view job);

}  // namespace anello::rendezvous
