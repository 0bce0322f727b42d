// Where a job's rendezvous may be found when nothing but the job's name is known to all ranks. Pure.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

namespace anello::rendezvous {

// Follow from the job's name; the first that is free is used. `range` is ANELLO_PORT_RANGE; empty: 20000-29999, which
// systems do not give to outgoing connections. Throws Error{configuration}.
std::vector<std::uint16_t> job_ports(std::string_view job, std::string_view range);

// A number that follows from the job's name, the same on all hosts and in all builds.
std::uint64_t job_hash(std::string_view job);

}  // namespace anello::rendezvous
