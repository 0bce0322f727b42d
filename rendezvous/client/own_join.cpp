#include "rendezvous/client/own_join.hpp"

#include <unistd.h>

#include <algorithm>

#include "rendezvous/protocol/host.hpp"
#include "ring/base/os.hpp"
#include "ring/base/text.hpp"

namespace anello::rendezvous {

std::vector<std::string> own_addresses(const Settings& settings, const std::string& secret, std::string usual,
                                       bool from_elsewhere, const std::vector<net::Interface>& interfaces) {
  const auto leads_elsewhere = [](const net::Interface& one) { return !one.name.starts_with("lo"); };
  // `usual` is a loopback address if /etc/hosts gives such an address for this host's name, under which the rank has
  // reached the server. Ranks of other hosts cannot connect to a loopback address, so another address is chosen.
  if (from_elsewhere && settings.iface.empty() && net::is_loopback(usual) &&
      std::any_of(interfaces.begin(), interfaces.end(), leads_elsewhere))
    usual = net::choose_address("^lo", usual, interfaces);
  std::vector<std::string> addresses = net::choose_addresses(settings.iface, usual, interfaces);
  for (const std::string& address : addresses)
    if (secret.empty() && !net::is_loopback(address))
      throw Error(ErrorCode::configuration,
                  text("this rank would listen on ", address,
                       " without a secret; set ANELLO_SECRET_FILE on all ranks (`anello secret FILE` makes one)"));
  return addresses;
}

Join join_of_this_process(const Settings& settings, const std::string& address) {
  Join mine{host_name(), machine(), address};
  mine.pid = std::uint32_t(getpid());
  mine.parent = std::uint32_t(getppid());
  mine.rank = settings.rank;
  mine.size = settings.size;
  mine.local_rank = settings.local_rank;
  mine.age = process_age();
  mine.place = settings.place;
  return mine;
}

void take_place(Identity& identity, const Assigned& assigned) {
  identity.generation = assigned.generation;
  identity.incarnation = assigned.incarnation;
  identity.rank = assigned.rank;
  identity.size = assigned.size;
  identity.local_rank = assigned.local_rank;
  identity.local_size = assigned.local_size;
  identity.node_rank = assigned.node_rank;
  identity.node_count = assigned.node_count;
  identity.host = assigned.host;
}

}  // namespace anello::rendezvous
