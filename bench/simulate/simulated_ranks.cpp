#include "bench/simulate/simulated_ranks.hpp"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "ring/base/check.hpp"

namespace anello::bench {
namespace {

// Maps each rank to the rank with the same index on another host: the host `by` places further in the ring of hosts.
struct Rotation {
  int hosts, ranks_per_host;

  int rotated(int rank, int by) const {
    const int world = hosts * ranks_per_host;
    return (rank + by * ranks_per_host) % world;
  }
};

bool same(const plan::Step& a, const plan::Step& b) {
  return a.range.count == b.range.count && a.act == b.act && a.stream == b.stream && a.order == b.order &&
         a.sources == b.sources && a.deps == b.deps;
}

// Returns true if both steps wait for the same steps, up to the same point. The steps' ranges may begin at different
// places, but the distances from there to the point must be equal.
bool same_waits(const plan::Plan& a, const plan::Step& a_step, const plan::Plan& b, const plan::Step& b_step) {
  const auto distance = [](const plan::Plan& plan, const plan::Step& step, plan::Dep dep) {
    return dep.whole ? 0 : plan.steps[dep.step].range.begin - step.range.begin;
  };
  for (std::uint32_t k = 0; k < a_step.deps; k++) {
    const plan::Dep a_dep = a.deps[a_step.first_dep + k], b_dep = b.deps[b_step.first_dep + k];
    if (a_dep != b_dep || distance(a, a_step, a_dep) != distance(b, b_step, b_dep)) return false;
  }
  return true;
}

// Returns true if `there` is the plan `here` with the peers' numbers rotated by `by` hosts.
bool is_image(const plan::Plan& here, const plan::Plan& there, const Rotation& rotation, int by) {
  const auto same_stream = [&](const plan::Stream& a, const plan::Stream& b) {
    const int peer = a.peer < 0 ? a.peer : rotation.rotated(a.peer, by);
    return a.kind == b.kind && a.first == b.first && a.end == b.end && peer == b.peer;
  };
  const auto same_step = [&](const plan::Step& a, const plan::Step& b) {
    return same(a, b) && same_waits(here, a, there, b);
  };
  return std::ranges::equal(here.streams, there.streams, same_stream) &&
         std::ranges::equal(here.steps, there.steps, same_step);
}

bool holds(const Rotation& rotation, const JobPlans& plans, const std::vector<SimulatedRank>& first_host) {
  for (const int by : {1, rotation.hosts / 2, rotation.hosts - 1})
    for (const SimulatedRank& rank : first_host)
      if (!is_image(rank.plan, plans.of(rotation.rotated(rank.plan.rank, by)), rotation, by)) return false;
  return true;
}

std::vector<SimulatedRank> first_ranks(const Job& job, int ranks) {
  std::vector<SimulatedRank> all(std::size_t(ranks), SimulatedRank{});
  const JobPlans plans(job);
  for (int rank = 0; rank < ranks; rank++) {
    all[std::size_t(rank)].plan = plans.of(rank);
    all[std::size_t(rank)].host = rank / job.ranks_per_host;
  }
  return all;
}

std::uint64_t key(int from, int to) {
  return std::uint64_t(from) << 32 | std::uint32_t(to);
}

// Sets the targets of all messages. stands_for(rank, host) returns the simulated rank that represents `rank` in a
// message to or from `host`.
template <class StandsFor>
SimulatedRanks with_targets(std::vector<SimulatedRank> ranks, const Job& job, int hosts, StandsFor stands_for) {
  std::unordered_map<std::uint64_t, SimulatedRank::Target> receiver;
  const auto each_stream = [&](plan::Stream::Kind kind, auto use) {
    for (std::uint32_t r = 0; r < ranks.size(); r++)
      for (std::uint32_t s = 0; s < ranks[r].plan.streams.size(); s++)
        if (const plan::Stream& stream = ranks[r].plan.streams[s]; stream.kind == kind) use(r, s, stream.peer);
  };
  each_stream(plan::Stream::Kind::receive, [&](std::uint32_t r, std::uint32_t s, int peer) {
    receiver[key(peer, ranks[r].plan.rank)] = {r, s, peer / job.ranks_per_host != ranks[r].host};
  });
  each_stream(plan::Stream::Kind::send, [&](std::uint32_t r, std::uint32_t, int peer) {
    const int host = peer / job.ranks_per_host;
    ranks[r].targets.push_back(receiver.at(key(stands_for(ranks[r].plan.rank, host), stands_for(peer, host))));
  });
  return {std::move(ranks), hosts};
}

std::optional<SimulatedRanks> one_host(Job job) {
  const Rotation rotation{job.world / job.ranks_per_host, job.ranks_per_host};
  if (rotation.hosts < 2) return std::nullopt;
  for (const bool rounds_up : {false, true}) {
    if (rounds_up) {
      job.count = up_to_multiple(job.count, std::uint64_t(job.world));
      job.slab_elems = up_to_multiple(job.slab_elems, std::uint64_t(job.world));
    }
    std::vector<SimulatedRank> first_host = first_ranks(job, job.ranks_per_host);
    if (!holds(rotation, JobPlans(job), first_host)) continue;
    return with_targets(std::move(first_host), job, 1,
                        [&](int rank, int host) { return rotation.rotated(rank, rotation.hosts - host); });
  }
  return std::nullopt;
}

}  // namespace

std::uint64_t up_to_multiple(std::uint64_t value, std::uint64_t of) {
  return (value + of - 1) / of * of;
}

JobPlans::JobPlans(const Job& job) : job_(job) {
  if (job.ranks_per_host < 2 || job.world <= job.ranks_per_host) return;
  std::vector<int> host_of_rank;
  for (int rank = 0; rank < job.world; rank++) host_of_rank.push_back(rank / job.ranks_per_host);
  hosts_.emplace(host_of_rank);
}

plan::Plan JobPlans::of(int rank) const {
  const auto world = std::uint64_t(job_.world);
  const std::uint64_t count = facts_of(job_.kind).parts ? up_to_multiple(job_.count, world) / world : job_.count;
  return algorithms::plan_of(
      {.slab_elems = std::uint32_t(job_.slab_elems), .kind = job_.kind, .algorithm = job_.algorithm},
      {.rank = rank, .world = job_.world, .count = count, .hosts = hosts_ ? &*hosts_ : nullptr});
}

std::optional<SimulatedRanks> simulated_ranks(const Job& job, Symmetry symmetry) {
  if (symmetry == Symmetry::rotating_host) return one_host(job);
  const int hosts = (job.world + job.ranks_per_host - 1) / job.ranks_per_host;
  return with_targets(first_ranks(job, job.world), job, hosts, [](int rank, int) { return rank; });
}

double messages(const SimulatedRanks& all, double part_elems, double scale) {
  double sum = 0;
  for (const SimulatedRank& rank : all.ranks)
    for (const plan::Step& step : rank.plan.steps)
      if (step.act == plan::Act::send) sum += std::ceil(double(step.range.count) * scale / part_elems);
  return sum;
}

}  // namespace anello::bench
