#include "ring/net/addresses.hpp"

#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <anello/error.hpp>
#include <asio/ip/address.hpp>
#include <cerrno>
#include <cstring>
#include <memory>

#include "ring/base/config.hpp"
#include "ring/base/text.hpp"

namespace anello::net {
namespace {

using asio::ip::address;

// Parses an address; a mapped IPv4 address (::ffff:127.0.0.1) becomes IPv4. Returns the unspecified address if `text`
// is not an address.
address parsed(std::string_view text) {
  asio::error_code failure;
  address result = asio::ip::make_address(std::string(text), failure);
  if (failure) return {};
  if (result.is_v6() && result.to_v6().is_v4_mapped())
    return asio::ip::make_address_v4(asio::ip::v4_mapped, result.to_v6());
  return result;
}

std::string numeric(const sockaddr& socket) {
  if (socket.sa_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &socket, sizeof v4);
    return asio::ip::address_v4(ntohl(v4.sin_addr.s_addr)).to_string();
  }
  sockaddr_in6 v6{};
  std::memcpy(&v6, &socket, sizeof v6);
  asio::ip::address_v6::bytes_type bytes;
  std::memcpy(bytes.data(), &v6.sin6_addr, bytes.size());
  return asio::ip::address_v6(bytes, v6.sin6_scope_id).to_string();
}

// The parsed value of ANELLO_IFACE, which chooses interfaces by name.
class Filter {
 public:
  explicit Filter(std::string_view list) : list_(list) {
    if (list.starts_with('^')) exclude_ = true, list.remove_prefix(1);
    if (list.starts_with('=')) exact_ = true, list.remove_prefix(1);
    for (bool more = true; more;) {
      const std::size_t comma = list.find(',');
      more = comma != std::string_view::npos;
      names_.push_back(list.substr(0, comma));
      if (more) list.remove_prefix(comma + 1);
      if (names_.back().empty())
        throw Error(ErrorCode::configuration,
                    text("ANELLO_IFACE='", list_,
                         "' has an empty name; write eth (all interfaces whose names begin with eth), ",
                         "=eth0 (this one), or ^docker,lo (all except these)"));
    }
  }
  bool admits(std::string_view name) const {
    const bool named = std::any_of(names_.begin(), names_.end(), [&](std::string_view wanted) {
      return exact_ ? name == wanted : name.starts_with(wanted);
    });
    return named != exclude_;
  }

 private:
  std::string_view list_;
  bool exclude_ = false, exact_ = false;
  std::vector<std::string_view> names_;
};

bool is_link_local(const address& one) {
  if (one.is_v6()) return one.to_v6().is_link_local();
  constexpr asio::ip::address_v4::uint_type kNetwork = 0xa9fe0000, kMask = 0xffff0000;  // 169.254.0.0/16
  return (one.to_v4().to_uint() & kMask) == kNetwork;
}

// True if the interface is a bridge of containers or virtual machines.
bool is_bridge(std::string_view name) {
  constexpr std::string_view kPrefixes[] = {"docker", "br-",   "virbr", "cni",     "podman",
                                            "lxcbr",  "lxdbr", "veth",  "flannel", "vmnet"};
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes), [&](auto prefix) { return name.starts_with(prefix); });
}

// Returns how unsuitable the interface is; the lowest value is the best.
int demerits(const Interface& interface, const address& usual) {
  const address mine = parsed(interface.address);
  return 8 * mine.is_loopback() + 4 * is_link_local(mine) + 2 * is_bridge(interface.name) +
         (mine.is_v6() != usual.is_v6());
}

std::string listed(const std::vector<Interface>& interfaces) {
  std::string out;
  for (const Interface& interface : interfaces)
    out += text(out.empty() ? "" : ", ", interface.name, " (", interface.address, ")");
  return out.empty() ? "none is up" : out;
}

}  // namespace

HostPort parse_host_port(std::string_view what, std::string_view given) {
  const auto wrong = [&](std::string_view why) {
    return Error(ErrorCode::configuration,
                 text(what, "='", given, "': ", why, "; expected host:port or [IPv6 address]:port"));
  };
  const std::size_t colon = given.rfind(':');
  if (colon == std::string_view::npos) throw wrong("no port");
  std::string_view host = given.substr(0, colon);
  const bool brackets = host.starts_with('[') && host.ends_with(']');
  if (brackets) host = host.substr(1, host.size() - 2);
  if (host.empty() || host.size() > 255) throw wrong(host.empty() ? "no host" : "the host's name is too long");
  if (brackets != (host.find(':') != std::string_view::npos)) throw wrong("brackets belong around an IPv6 address");
  if (brackets && parsed(host).is_unspecified() && host != "::") throw wrong("not an IPv6 address in the brackets");
  if (host.find_first_of("[] \t/") != std::string_view::npos) throw wrong("not a host's name");
  return {std::string(host),
          std::uint16_t(parse_number(text(what, "='", given, "': port"), given.substr(colon + 1), 1, 65535))};
}

std::vector<HostPort> parse_host_ports(std::string_view what, std::string_view list) {
  std::vector<HostPort> out;
  for (;;) {
    const std::size_t comma = list.find(',');
    out.push_back(parse_host_port(what, list.substr(0, comma)));
    if (comma == std::string_view::npos) return out;
    list.remove_prefix(comma + 1);
  }
}

std::string host_port(std::string_view host, unsigned port) {
  const bool brackets = host.find(':') != std::string_view::npos;
  return text(brackets ? "[" : "", host, brackets ? "]:" : ":", port);
}

PortRange parse_port_range(std::string_view range) {
  if (range.empty()) return {};
  const std::size_t dash = range.find('-');
  const std::string what = text("ANELLO_PORT_RANGE='", range, "' (first-last): port");
  const long first = parse_number(what, range.substr(0, dash), 1, 65535);
  const long last = dash == std::string_view::npos ? first : parse_number(what, range.substr(dash + 1), 1, 65535);
  if (last < first)
    throw Error(ErrorCode::configuration,
                text("ANELLO_PORT_RANGE='", range, "' ends before it begins; expected first-last"));
  return {std::uint16_t(first), std::uint16_t(last)};
}

bool is_loopback(std::string_view address) {
  return parsed(address).is_loopback();
}

bool is_local(std::string_view address) {
  const asio::ip::address wanted = parsed(address);
  if (wanted.is_loopback()) return true;
  if (wanted.is_unspecified()) return false;
  const std::vector<Interface> own = local_interfaces();
  return std::any_of(own.begin(), own.end(), [&](const Interface& one) { return parsed(one.address) == wanted; });
}

std::vector<Interface> local_interfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0)
    throw Error(ErrorCode::network, text("this host's interfaces cannot be listed: ", std::strerror(errno)));
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> freed_at_end(list, &freeifaddrs);
  std::vector<Interface> out;
  for (const ifaddrs* at = list; at; at = at->ifa_next) {
    if (!at->ifa_addr || !(at->ifa_flags & IFF_UP)) continue;
    const int family = at->ifa_addr->sa_family;
    if (family == AF_INET || family == AF_INET6) out.push_back({at->ifa_name, numeric(*at->ifa_addr)});
  }
  return out;
}

std::vector<std::string> addresses_for_other_hosts(std::string_view usual, const std::vector<Interface>& interfaces) {
  const address family = parsed(usual);
  std::vector<Interface> sorted;
  for (const Interface& one : interfaces)
    if (const address mine = parsed(one.address); !mine.is_loopback() && !is_link_local(mine)) sorted.push_back(one);
  std::stable_sort(sorted.begin(), sorted.end(), [&](const Interface& left, const Interface& right) {
    return demerits(left, family) < demerits(right, family);
  });
  std::vector<std::string> out;
  for (const Interface& one : sorted) out.push_back(one.address);
  return out;
}

std::string choose_address(std::string_view iface, std::string_view usual, const std::vector<Interface>& interfaces) {
  if (iface.find('+') != std::string_view::npos) return choose_addresses(iface, usual, interfaces).front();
  if (iface.empty()) return std::string(usual);
  const Filter filter(iface);
  const address wanted = parsed(usual);
  const Interface* best = nullptr;
  for (const Interface& one : interfaces) {
    if (!filter.admits(one.name)) continue;
    if (parsed(one.address) == wanted) return std::string(usual);
    if (!best || demerits(one, wanted) < demerits(*best, wanted)) best = &one;
  }
  if (!best)
    throw Error(ErrorCode::configuration,
                text("ANELLO_IFACE='", iface, "' admits none of this host's interfaces: ", listed(interfaces)));
  return best->address;
}

std::vector<std::string> choose_addresses(std::string_view iface, std::string_view usual,
                                          const std::vector<Interface>& interfaces) {
  const auto wrong = [&](std::string_view why) {
    return Error(ErrorCode::configuration, text("ANELLO_IFACE='", iface, "' ", why, "; write eth0+eth1"));
  };
  std::vector<std::string> out;
  for (std::size_t begin = 0; begin <= iface.size();) {
    const std::size_t end = std::min(iface.find('+', begin), iface.size());
    const std::string_view part = iface.substr(begin, end - begin);
    if (part.empty() && !iface.empty()) throw wrong("has an empty name at a +");
    out.push_back(choose_address(part, usual, interfaces));
    if (std::count(out.begin(), out.end(), out.back()) > 1)
      throw wrong(text("names the address ", out.back(), " twice; this host has ", listed(interfaces)));
    if (out.size() > kMaxAddresses) throw wrong(text("names more than ", kMaxAddresses, " interfaces"));
    begin = end + 1;
  }
  return out;
}

}  // namespace anello::net
