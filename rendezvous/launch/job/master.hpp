// MASTER_ADDR and MASTER_PORT: the place where programs written for torchrun meet. They are an address of rank 0's host
// that the other hosts can reach, and a port that is free there. Only rank 0's host can find both, when the job starts.
// Any thread.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/launch/job/job.hpp"
#include "ring/net/addresses.hpp"

namespace anello::launch {

// Returns the values that the user has given by -x. Throws Error{configuration} if a value cannot be used.
Master given_master(const std::vector<std::string>& exported);

// Completes `job.master`. Call on rank 0's host. `reached_at`: an address of this host that the other hosts can reach;
// used unless ANELLO_IFACE chooses another. The port is a free one in ANELLO_PORT_RANGE. Throws Error{configuration}
// and Error{network}.
Master find_master(const Job& job, const std::string& reached_at);

// For several launchers of one job, which cannot ask each other. Returns the host of the rendezvous, and a port that is
// computed from the job's name. The port may not be free. Throws Error{configuration}.
Master agreed_master(const Job& job);

// Call on rank 0's host. If a process has the port, throws Error{network} that names the process: rank 0 could not
// listen there, and the ranks of other hosts would connect to that process.
void require_free(const Master& master);

// Encodes the two values as one line, for messages between launcher and agents. decode_master() throws Error{protocol}.
std::string encode(const Master& master);
Master decode_master(std::string_view line);

// Chooses a port for which `is_free` is true. Leaves the lowest free ports to the ranks of the host, because they
// listen on the first free ports of the range. If all free ports are left to the ranks, takes the highest of these
// ports. Returns nothing if no port is free. Pure.
std::optional<std::uint16_t> choose_master_port(std::string_view job, net::PortRange ports, int ranks_here,
                                                const std::function<bool(std::uint16_t)>& is_free);

}  // namespace anello::launch
