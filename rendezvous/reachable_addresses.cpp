#include "rendezvous/reachable_addresses.hpp"

#include <algorithm>

#include "ring/base/text.hpp"
#include "ring/net/addresses.hpp"

namespace anello::rendezvous {
namespace {

constexpr std::size_t kMaxListBytes = 256;  // what a key-value space takes

bool usable_elsewhere(const net::Interface& one) {
  return !net::is_loopback(one.address) && !one.address.starts_with("fe80:") && !one.address.starts_with("169.254.");
}

bool of_a_bridge(const net::Interface& one) {
  return one.name.starts_with("docker") || one.name.starts_with("br-") || one.name.starts_with("virbr");
}

}  // namespace

std::string reachable_addresses(const std::string& iface, std::uint16_t port, bool one_host) {
  std::vector<net::Interface> all = net::local_interfaces();
  std::erase_if(all, [](const net::Interface& one) { return !usable_elsewhere(one); });
  if (one_host || all.empty()) return net::host_port("127.0.0.1", port);
  if (!iface.empty()) return net::host_port(net::choose_address(iface, all.front().address, all), port);
  std::stable_partition(all.begin(), all.end(), [](const net::Interface& one) { return !of_a_bridge(one); });
  std::string out;
  for (const net::Interface& one : all) {
    const std::string next = text(out.empty() ? "" : ",", net::host_port(one.address, port));
    if (out.size() + next.size() <= kMaxListBytes) out += next;
  }
  return out;
}

}  // namespace anello::rendezvous
