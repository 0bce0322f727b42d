#include "rendezvous/join/reachable_addresses.hpp"

#include <vector>

#include "ring/base/text.hpp"
#include "ring/net/addresses.hpp"

namespace anello::rendezvous {
namespace {

constexpr std::size_t kMaxListBytes = 256;  // limit of a value in a key-value space

}  // namespace

std::string reachable_addresses(const std::string& iface, std::uint16_t port, bool one_host) {
  const std::string loopback = "127.0.0.1";
  std::vector<net::Interface> interfaces = net::local_interfaces();
  std::erase_if(interfaces, [](const net::Interface& one) { return net::is_loopback(one.address); });
  const std::vector<std::string> others = net::addresses_for_other_hosts(loopback, interfaces);
  if (one_host || others.empty()) return net::host_port(loopback, port);
  if (!iface.empty()) return net::host_port(net::choose_address(iface, others.front(), interfaces), port);
  std::string out;
  for (const std::string& address : others) {
    const std::string next = text(out.empty() ? "" : ",", net::host_port(address, port));
    if (out.size() + next.size() <= kMaxListBytes) out += next;
  }
  return out;
}

}  // namespace anello::rendezvous
