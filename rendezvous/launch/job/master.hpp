// MASTER_ADDR and MASTER_PORT, where programs that were written for torchrun meet: an address of rank 0's host that the
// other hosts reach, and a port that is free there. Only rank 0's host can find both, when the job starts. Any thread.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/launch/job/job.hpp"
#include "ring/net/addresses.hpp"

namespace anello::launch {

// The parts that the user has given by -x. Throws Error{configuration} if one cannot be used.
Master given_master(const std::vector<std::string>& exported);

// Completes `job.master` on rank 0's host: `reached_at` is an address of this host that the other hosts reach, unless
// ANELLO_IFACE chooses another, and the port is a free one in ANELLO_PORT_RANGE. Throws Error{configuration} and
// Error{network}.
Master find_master(const Job& job, const std::string& reached_at);

// For several launchers of one job, which cannot ask each other: returns the host of the rendezvous, and a port that
// follows from the job's name and may not be free. Throws Error{configuration}.
Master agreed_master(const Job& job);

// Call it on rank 0's host. Throws Error{network} that names the process which has the port: rank 0 could not listen
// there, and the ranks of other hosts would connect to that process.
void require_free(const Master& master);

// Encodes as one line, for messages between launcher and agents. decode_master() throws Error{protocol}.
std::string encode(const Master& master);
Master decode_master(std::string_view line);

// Chooses a port for which `is_free` holds. Leaves the lowest free ports to the ranks of the host, which listen on the
// first free ports of the range; if there are no others, takes the highest of these. Returns nothing if no port is
// free. Pure.
std::optional<std::uint16_t> choose_master_port(std::string_view job, net::PortRange ports, int ranks_here,
                                                const std::function<bool(std::uint16_t)>& is_free);

}  // namespace anello::launch
