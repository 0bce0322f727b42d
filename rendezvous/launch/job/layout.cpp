#include "rendezvous/launch/job/layout.hpp"

#include <algorithm>
#include <anello/error.hpp>

#include "ring/base/text.hpp"

namespace anello::launch {
namespace {

constexpr std::size_t kMaxListed = 8;  // maximum number of hosts that a message lists

std::string counted(long count, std::string_view word) {
  return text(count, " ", word, count == 1 ? "" : "s");
}

std::string list(const Hosts& hosts) {
  std::string out;
  for (std::size_t i = 0; i < std::min(hosts.size(), kMaxListed); i++)
    out += text(i ? ", " : "", hosts[i].name, ": ", hosts[i].slots.value_or(1));
  return out + (hosts.size() > kMaxListed ? ", ..." : "");
}

// Returns how many ranks each host can take.
std::vector<long> room_on(const Hosts& hosts, const Wanted& wanted) {
  const bool known = std::ranges::any_of(hosts, [](const Host& host) { return host.slots.has_value(); });
  const long count = long(hosts.size()), even = (wanted.ranks.value_or(int(count)) + count - 1) / count;
  std::vector<long> room;
  for (const Host& host : hosts) {
    if (host.max_slots && wanted.per_host > host.max_slots)
      throw Error(ErrorCode::configuration, text("-N ", *wanted.per_host, " is more than the max-slots=",
                                                 *host.max_slots, " of ", host.name, " in the host file"));
    const long slots = known ? host.slots.value_or(1) : even;
    room.push_back(wanted.per_host.value_or(int(slots)));
  }
  return room;
}

Error too_few(const Hosts& hosts, const Wanted& wanted, long ranks, long total) {
  const std::string on = counted(long(hosts.size()), "host");
  if (wanted.per_host)
    return {ErrorCode::configuration, text(counted(ranks, "rank"), " do not fit: -N ", *wanted.per_host, " on ", on,
                                           " is ", total, "; list more hosts, raise -N, or leave out -n")};
  const long each = (ranks + long(hosts.size()) - 1) / long(hosts.size());
  return {ErrorCode::configuration,
          text(counted(ranks, "rank"), " do not fit: there ", total == 1 ? "is " : "are ", counted(total, "slot"),
               " on ", on, " (", list(hosts), "); to run more ranks than slots, say how many a host: -N ", each)};
}

}  // namespace

Layout lay_out(const Hosts& hosts, const Wanted& wanted) {
  if (hosts.empty()) throw Error(ErrorCode::configuration, "no host is left");
  const std::vector<long> room = room_on(hosts, wanted);
  long total = 0;
  for (const long one : room) total += one;
  const long ranks = !wanted.ranks ? total : wanted.or_fewer ? std::min(long(*wanted.ranks), total) : *wanted.ranks;
  if (total < ranks) throw too_few(hosts, wanted, ranks, total);
  Layout layout;
  long placed = 0;
  for (std::size_t i = 0; i < hosts.size() && placed < ranks; i++) {
    const long here = std::min(room[i], ranks - placed);
    layout.push_back({hosts[i].name, int(placed), int(here)});
    placed += here;
  }
  return layout;
}

}  // namespace anello::launch
