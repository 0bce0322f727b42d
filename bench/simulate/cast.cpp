#include "bench/simulate/cast.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <unordered_map>

#include "ring/base/check.hpp"

namespace anello::bench {
namespace {

// How the first host's part in a plan becomes that of another.
struct HostMapping {
  Symmetry kind;
  int hosts, ranks_per_host;

  int moved(int rank, int by) const {
    const int host = rank / ranks_per_host;
    const int to = kind == Symmetry::rotating_host ? (host + by) % hosts : host ^ by;
    return to * ranks_per_host + rank % ranks_per_host;
  }
  int back(int host) const { return kind == Symmetry::rotating_host ? (hosts - host) % hosts : host; }  // to the first
};

bool same(const Step& a, const Step& b) {
  return a.range.count == b.range.count && a.act == b.act && a.stream == b.stream && a.order == b.order &&
         a.sources == b.sources && a.deps == b.deps;
}

// Do the steps wait for the same ones, and to the same point? Where ranges begin is not the same, but how far apart
// they are is, unless they are mirrored.
bool same_waits(const Plan& a, const Step& a_step, const Plan& b, const Step& b_step, bool mirrored) {
  const auto distance = [](const Plan& plan, const Step& step, Dep dep) {
    return dep.whole ? 0 : plan.steps[dep.step].range.begin - step.range.begin;
  };
  for (std::uint32_t k = 0; k < a_step.deps; k++) {
    const Dep a_dep = a.deps[a_step.first_dep + k], b_dep = b.deps[b_step.first_dep + k];
    if (a_dep != b_dep) return false;
    if (!mirrored && distance(a, a_step, a_dep) != distance(b, b_step, b_dep)) return false;
  }
  return true;
}

// Is `theirs` what `mine` becomes?
bool is_image(const Plan& mine, const Plan& theirs, const HostMapping& symmetry, int by) {
  const auto same_stream = [&](const Stream& a, const Stream& b) {
    const int peer = a.peer < 0 ? a.peer : symmetry.moved(a.peer, by);
    return a.kind == b.kind && a.first == b.first && a.end == b.end && peer == b.peer;
  };
  const auto same_step = [&](const Step& a, const Step& b) {
    return same(a, b) && same_waits(mine, a, theirs, b, symmetry.kind == Symmetry::mirrored_host);
  };
  return std::ranges::equal(mine.streams, theirs.streams, same_stream) &&
         std::ranges::equal(mine.steps, theirs.steps, same_step);
}

Plan plan_of(const Job& job, int rank) {
  return plan_allreduce(job.algorithm, {rank, job.world, job.count}, job.slab_elems);
}

bool holds(const HostMapping& symmetry, const Job& job, const std::vector<SimulatedRank>& first_host) {
  for (const int by : {1, symmetry.hosts / 2, symmetry.hosts - 1})
    for (const SimulatedRank& actor : first_host)
      if (!is_image(actor.plan, plan_of(job, symmetry.moved(actor.plan.rank, by)), symmetry, by)) return false;
  return true;
}

std::vector<SimulatedRank> actors(const Job& job, int ranks) {
  std::vector<SimulatedRank> all(std::size_t(ranks), SimulatedRank{});
  for (int rank = 0; rank < ranks; rank++) {
    all[std::size_t(rank)].plan = plan_of(job, rank);
    all[std::size_t(rank)].host = rank / job.ranks_per_host;
  }
  return all;
}

std::uint64_t key(int from, int to) {
  return std::uint64_t(from) << 32 | std::uint32_t(to);
}

// Leads every message to where it is received: move(rank, host) is the rank as seen from that host.
template <class Move>
SimulatedRanks wired(std::vector<SimulatedRank> actors, const Job& job, int hosts, Move move) {
  std::unordered_map<std::uint64_t, SimulatedRank::Target> receiver;
  const auto each_stream = [&](Stream::Kind kind, auto use) {
    for (std::uint32_t a = 0; a < actors.size(); a++)
      for (std::uint32_t s = 0; s < actors[a].plan.streams.size(); s++)
        if (const Stream& stream = actors[a].plan.streams[s]; stream.kind == kind) use(a, s, stream.peer);
  };
  each_stream(Stream::Kind::receive, [&](std::uint32_t a, std::uint32_t s, int peer) {
    receiver[key(peer, actors[a].plan.rank)] = {a, s, peer / job.ranks_per_host != actors[a].host};
  });
  each_stream(Stream::Kind::send, [&](std::uint32_t a, std::uint32_t, int peer) {
    const int host = peer / job.ranks_per_host;
    actors[a].targets.push_back(receiver.at(key(move(actors[a].plan.rank, host), move(peer, host))));
  });
  return {std::move(actors), hosts};
}

std::uint64_t up_to_multiple(std::uint64_t value, int of) {
  const auto divisor = std::uint64_t(of);
  return (value + divisor - 1) / divisor * divisor;
}

std::optional<SimulatedRanks> one_host(Job job, Symmetry kind) {
  const HostMapping symmetry{kind, job.world / job.ranks_per_host, job.ranks_per_host};
  if (symmetry.hosts < 2) return std::nullopt;
  const bool mirrors = job.ranks_per_host == 1 && std::has_single_bit(unsigned(symmetry.hosts));
  if (kind == Symmetry::mirrored_host && !mirrors) return std::nullopt;
  for (const bool round : {false, true}) {
    if (round) {
      job.count = up_to_multiple(job.count, job.world);
      job.slab_elems = up_to_multiple(job.slab_elems, job.world);
    }
    std::vector<SimulatedRank> first_host = actors(job, job.ranks_per_host);
    if (!holds(symmetry, job, first_host)) continue;
    return wired(std::move(first_host), job, 1,
                 [&](int rank, int host) { return symmetry.moved(rank, symmetry.back(host)); });
  }
  return std::nullopt;
}

}  // namespace

std::optional<SimulatedRanks> cast(const Job& job, Symmetry players) {
  if (players != Symmetry::everybody) return one_host(job, players);
  const int hosts = (job.world + job.ranks_per_host - 1) / job.ranks_per_host;
  return wired(actors(job, job.world), job, hosts, [](int rank, int) { return rank; });
}

double messages(const SimulatedRanks& cast, double part_elems, double scale) {
  double sum = 0;
  for (const SimulatedRank& actor : cast.actors)
    for (const Step& step : actor.plan.steps)
      if (step.act == Act::send) sum += std::ceil(double(step.range.count) * scale / part_elems);
  return sum;
}

}  // namespace anello::bench
