#include "bench/simulate/bound.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <queue>
#include <vector>

namespace anello::bench {
namespace {

double latency_us(const Cluster& cluster, int world, int hosts) {
  const double ends_us = 2 * cluster.message_us;
  const bool neighbours = world > hosts;
  double way_us = neighbours ? cluster.local_latency_us : cluster.network_latency_us;
  if (hosts > 1) way_us = std::min(way_us, cluster.network_latency_us);
  const double by_ranks = spread_us(world, cluster.message_us, way_us + ends_us);
  const double by_hosts =
      spread_us(hosts, cluster.message_us / cluster.cores_used(), cluster.network_latency_us + ends_us);
  return std::max(by_ranks, by_hosts);
}

}  // namespace

double spread_us(int nodes, double gap_us, double delay_us) {
  std::priority_queue<double, std::vector<double>, std::greater<>>
      next;  // by node that has the data: the time at which its next message arrives
  next.push(delay_us);
  double now_us = 0;
  for (int reached = 1; reached < nodes; reached++) {
    now_us = next.top();
    next.pop();
    next.push(now_us + gap_us);
    next.push(now_us + delay_us);
  }
  return now_us;
}

double share_of_network(Kind kind, int hosts, int ranks_per_host) {
  const double others = double(hosts - 1) / hosts;
  switch (kind) {
    case Kind::allreduce:
      return 2 * others;
    case Kind::allgather:
    case Kind::reduce_scatter:
    case Kind::gather:
    case Kind::scatter:
      return others;
    case Kind::alltoall:
      return ranks_per_host * others;
    case Kind::broadcast:
    case Kind::reduce:
    case Kind::transfer:
      return hosts > 1 ? 1 : 0;
    case Kind::barrier:
      break;
  }
  return 0;
}

double network_aim_us(const Cluster& cluster, Kind kind, int hosts, std::uint64_t bytes) {
  const int doublings = std::bit_width(unsigned(hosts - 1));
  const double share = share_of_network(kind, hosts, cluster.ranks_per_host);
  return doublings * cluster.network_latency_us + share * double(bytes) / cluster.network_rate;
}

double lower_bound_us(const Cluster& cluster, Kind kind, int world, std::uint64_t bytes) {
  if (world < 2) return 0;
  const int per_host = std::min(world, cluster.ranks_per_host), hosts = world / per_host;
  const double network_us = share_of_network(kind, hosts, per_host) * double(bytes) / cluster.network_rate;
  const double least_us = std::max(latency_us(cluster, world, hosts), network_us);
  if (kind != Kind::allreduce) return least_us;
  const double share = double(world - 1) / world * double(bytes);
  const int copies = cluster.memory ? 3 : 4;  // if ranks share memory, they reduce data in the sender's memory
  const double rank_us = copies * share / cluster.copy_rate + share / cluster.reduce_rate;
  return std::max(least_us, rank_us * per_host / std::min(per_host, cluster.cores_used()));
}

}  // namespace anello::bench
