// Describes this process to the rendezvous server, and takes the place that the server gives to it.
#pragma once
#include <anello/settings.hpp>
#include <string>
#include <vector>

#include "rendezvous/protocol/protocol.hpp"
#include "ring/base/identity.hpp"
#include "ring/net/addresses.hpp"

namespace anello::rendezvous {

// Returns the numeric addresses at which this process will listen: those that ANELLO_IFACE chooses, or else `usual`,
// which is the address of this process's connection with the server. `from_elsewhere`: ranks of other hosts will
// connect. Throws Error{configuration} if there is no secret and an address is not loopback.
std::vector<std::string> own_addresses(const Settings& settings, const std::string& secret, std::string usual,
                                       bool from_elsewhere, const std::vector<net::Interface>& interfaces);

Join join_of_this_process(const Settings& settings, const std::string& address);

void take_place(Identity& identity, const Assigned& assigned);

}  // namespace anello::rendezvous
