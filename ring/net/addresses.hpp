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
// Parses "host:port" or "[v6]:port". Throws Error{configuration} that names `what` and the text.
HostPort parse_host_port(std::string_view what, std::string_view text);
std::vector<HostPort> parse_host_ports(std::string_view what, std::string_view list);  // separated by commas
std::string host_port(std::string_view host, unsigned port);  // puts an IPv6 address in brackets

// Ports to listen on, both ends included; 0-0 means any free port.
struct PortRange {
  std::uint16_t first = 0, last = 0;
};
// Parses "first-last", one port, or an empty text (any port). Throws Error{configuration} that names ANELLO_PORT_RANGE
// and the text.
PortRange parse_port_range(std::string_view text);
// Calls listen(port) for one port of the range after another until a call does not throw Error{network}, and returns
// the result of that call.
template <class Listen>
auto at_first_free(PortRange ports, Listen listen) {
  for (unsigned port = ports.first; port < ports.last; port++) try {
      return listen(std::uint16_t(port));
    } catch (const Error& taken) {
      if (taken.code() != ErrorCode::network) throw;
    }
  return listen(ports.last);
}

// True for ::ffff:127.0.0.1 too; false if the text is not a numeric address.
bool is_loopback(std::string_view address);
bool is_local(std::string_view address);  // true for loopback, and for an address of this host

// One address of an interface that is up.
struct Interface {
  std::string name, address;
};
// Lists the interfaces in the order of the operating system. Throws Error{network}.
std::vector<Interface> local_interfaces();

// Returns this host's addresses that other hosts may reach, the most likely first. Leaves out loopback and link-local
// addresses. Addresses of `usual`'s family come before others. Bridges of containers and virtual machines come last,
// because they have the same address on many hosts.
std::vector<std::string> addresses_for_other_hosts(std::string_view usual, const std::vector<Interface>& interfaces);

// Chooses the address on which a rank listens, and which it sends to the other ranks. `usual` is the address of the
// rank's connection to the rendezvous, and is chosen if `iface` is empty or allows it. Otherwise chooses the best
// address that `iface` allows. The criteria, in this order: not loopback, not link-local, not a bridge of containers,
// the family of `usual`, the order of `interfaces`. `iface`: names separated by commas: eth (prefix), =eth0 (exact),
// ^docker,lo (all except these prefixes), ^=eth1 (all except this name). If no interface matches, throws
// Error{configuration} that lists the interfaces.
std::string choose_address(std::string_view iface, std::string_view usual, const std::vector<Interface>& interfaces);

// Chooses the addresses of several interfaces that carry one job together. `iface` has one part for each interface, as
// for choose_address(), with + between the parts, such as eth0+eth1. The first address is the rank's own. Throws like
// choose_address(), and also if two parts choose the same address or there are more than kMaxAddresses parts.
inline constexpr std::size_t kMaxAddresses = 16;
std::vector<std::string> choose_addresses(std::string_view iface, std::string_view usual,
                                          const std::vector<Interface>& interfaces);

}  // namespace anello::net
