#include "bench/simulate/sweep.hpp"

#include <algorithm>
#include <anello/error.hpp>
#include <limits>

#include "bench/simulate/bound.hpp"
#include "ring/base/check.hpp"
#include "ring/base/text.hpp"

namespace anello::bench {

const Cell::Row& Cell::chosen() const {
  const auto row = std::ranges::find(rows, choice.algorithm, &Row::algorithm);
  ANELLO_CHECK(row != rows.end());
  return *row;
}

const Cell::Row& Cell::fastest() const {
  return *std::ranges::min_element(rows, {}, [](const Row& row) {
    return row.prediction.simulated() ? row.prediction.result.us : std::numeric_limits<double>::infinity();
  });
}

algorithms::Facts facts_of(const Cluster& cluster, int world, std::int64_t slab_bytes) {
  algorithms::Facts facts;
  facts.world = world;
  facts.oversubscribed = std::min(world, cluster.ranks_per_host) > cluster.cores_used();
  facts.hosts = (world + cluster.ranks_per_host - 1) / cluster.ranks_per_host;
  facts.memory = cluster.memory && facts.hosts == 1;
  facts.elem_bytes = kElemBytes;
  facts.slab_bytes = slab_bytes;
  return facts;
}

std::uint64_t bytes_simulated(Kind kind, int world, std::uint64_t size_bytes) {
  const std::uint64_t count = std::max<std::uint64_t>(1, size_bytes / kElemBytes);
  return kElemBytes * (facts_of(kind).parts ? up_to_multiple(count, std::uint64_t(world)) : count);
}

Job job_of(const Cluster& cluster, Kind kind, const algorithms::Facts& facts, Algorithm algorithm) {
  return {.algorithm = algorithm,
          .world = facts.world,
          .ranks_per_host = std::min(facts.world, cluster.ranks_per_host),
          .count = facts.bytes / kElemBytes,
          .slab_elems = slab_elems(kind, facts, algorithm),
          .kind = kind};
}

Cell simulate_cell(const Cluster& cluster, Kind kind, const algorithms::Facts& facts, const Limits& limits) {
  const int per_host = std::min(facts.world, cluster.ranks_per_host);
  if (facts.world % per_host != 0)
    throw Error(ErrorCode::configuration,
                text("-n ", facts.world, " is no multiple of --ranks-per-host ", per_host, "; give a multiple of it"));
  Cell cell;
  cell.world = facts.world;
  cell.hosts = facts.world / per_host;
  cell.count = facts.bytes / kElemBytes;
  cell.bound_us = lower_bound_us(cluster, kind, facts.world, cell.bytes());
  cell.aim_us = network_aim_us(cluster, kind, cell.hosts, cell.bytes());
  cell.choice = choose(kind, facts);
  for (const Algorithm algorithm : algorithms_for(kind, facts)) {
    const Job job = job_of(cluster, kind, facts, algorithm);
    cell.rows.push_back({algorithm, job.slab_elems, predict(job, cluster, kElemBytes, limits)});
  }
  return cell;
}

}  // namespace anello::bench
