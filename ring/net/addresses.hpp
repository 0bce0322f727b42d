// Addresses as text: "host:port", port ranges, this host's interfaces, and the choice of the addresses that a rank uses
// (ANELLO_IFACE). Addresses are numeric strings; an IPv6 scope is kept ("fe80::1%eth0"). Any thread. Opens no socket
// and asks no name server.
#pragma once
#include <anello/error.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace anello::net {

struct HostPort {
  std::string host;  // a name or a numeric address, without brackets
  std::uint16_t port = 0;
};
// "host:port" or "[v6]:port". Throws Error{configuration} that names `what` and the text.
HostPort parse_host_port(std::string_view what, std::string_view text);
std::vector<HostPort> parse_host_ports(std::string_view what, std::string_view list);  // several, separated by commas
std::string host_port(std::string_view host, unsigned port);  // puts an IPv6 address in brackets

// Ports to listen on, both ends included; 0-0 means any free port.
struct PortRange {
  std::uint16_t first = 0, last = 0;
};
// "first-last", one port, or empty for any port. Throws Error{configuration} that names ANELLO_PORT_RANGE and the text.
PortRange parse_port_range(std::string_view text);
// Calls listen(port) for one port of the range after another, until it does not throw Error{network}, and returns its
// result.
template <class Listen>
auto at_first_free(PortRange ports, Listen listen) {
  for (unsigned port = ports.first; port < ports.last; port++) try {
      return listen(std::uint16_t(port));
    } catch (const Error& taken) {
      if (taken.code() != ErrorCode::network) throw;
    }
  return listen(ports.last);
}

bool is_loopback(std::string_view address);  // also ::ffff:127.0.0.1; false if it is not a numeric address
bool is_local(std::string_view address);     // loopback, or an address of this host

// One address of one interface that is up.
struct Interface {
  std::string name, address;
};
// Lists them in the order of the operating system. Throws Error{network}.
std::vector<Interface> local_interfaces();

// Returns this host's addresses that other hosts may reach, the most likely first: no loopback and no link-local
// address; addresses of `usual`'s family before others; bridges of containers and virtual machines last, because they
// have the same address on many hosts.
std::vector<std::string> addresses_for_other_hosts(std::string_view usual, const std::vector<Interface>& interfaces);

// Chooses the address that a rank listens on and sends to the others: `usual` (the address of its connection to the
// rendezvous) if `iface` is empty or allows it, else the best address that `iface` allows: no loopback, no link-local,
// no bridge of containers, the family of `usual`, then the order of `interfaces`. `iface`: names separated by commas:
// eth (prefix), =eth0 (exact), ^docker,lo (all except these prefixes), ^=eth1 (all except this name). Throws
// Error{configuration} that lists the interfaces if none matches.
std::string choose_address(std::string_view iface, std::string_view usual, const std::vector<Interface>& interfaces);

// Chooses the addresses of several interfaces that carry one job together. `iface`: as above for each interface, with +
// between them, such as eth0+eth1. The first address is the rank's own. Throws like choose_address(), and also if two
// of them choose the same address or there are more than kMaxAddresses.
inline constexpr std::size_t kMaxAddresses = 16;
std::vector<std::string> choose_addresses(std::string_view iface, std::string_view usual,
                                          const std::vector<Interface>& interfaces);

}  // namespace anello::net
