#include "rendezvous/server/reachability.hpp"

#include <algorithm>
#include <map>

#include "rendezvous/protocol/describe.hpp"
#include "ring/base/text.hpp"
#include "ring/net/addresses.hpp"

namespace anello::rendezvous {
namespace {

std::string on_loopback(const Join& join, const std::vector<Join>& ranks) {
  const auto other = std::ranges::find_if(ranks, [&](const Join& one) { return one.machine != join.machine; });
  return text(describe(join), " is on the loopback address ", join.address, ", where ", describe(*other), " at ",
              other->address,
              " and others cannot reach it; give all the rendezvous server's network address in ANELLO_RENDEZVOUS or "
              "MASTER_ADDR, or set ANELLO_IFACE");
}

}  // namespace

std::string unreachable(const std::vector<Join>& ranks) {
  if (std::ranges::all_of(ranks, [&](const Join& join) { return join.machine == ranks[0].machine; })) return {};
  std::map<std::string, const Join*> owners;  // by address
  for (const Join& join : ranks) {
    if (net::is_loopback(join.address)) return on_loopback(join, ranks);
    const Join& owner = *owners.emplace(join.address, &join).first->second;
    if (owner.machine != join.machine)
      return text(describe(owner), " and ", describe(join), " are on different hosts but have the same address ",
                  join.address, ", as bridges of containers do; set ANELLO_IFACE to the network between the hosts");
  }
  return {};
}

}  // namespace anello::rendezvous
