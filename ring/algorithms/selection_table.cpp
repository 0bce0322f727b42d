#include "ring/algorithms/selection_table.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "ring/algorithms/building_blocks.hpp"

namespace anello::algorithms {
namespace {

constexpr std::uint64_t kAnySize = std::numeric_limits<std::uint64_t>::max();

constexpr std::uint16_t of(Kind kind) {
  return std::uint16_t(1U << unsigned(kind));
}
constexpr std::uint16_t kAllreduce = of(Kind::allreduce), kAllgather = of(Kind::allgather),
                        kReduceScatter = of(Kind::reduce_scatter), kParts = kAllgather | kReduceScatter,
                        kBroadcast = of(Kind::broadcast), kReduce = of(Kind::reduce), kTrees = kBroadcast | kReduce;

constexpr Algorithm kLeadersOneShot = in_levels(Levels::leaders, Algorithm::one_shot),
                    kLeadersDoubling = in_levels(Levels::leaders, Algorithm::recursive_doubling),
                    kLeadersTree = in_levels(Levels::leaders, Algorithm::tree),
                    kLeadersRing = in_levels(Levels::leaders, Algorithm::ring),
                    kSharesOneShot = in_levels(Levels::shares, Algorithm::one_shot),
                    kSharesTwoShot = in_levels(Levels::shares, Algorithm::two_shot),
                    kSharesGrid = in_levels(Levels::shares, Algorithm::grid),
                    kSharesRing = in_levels(Levels::shares, Algorithm::ring);

// Where bounds were measured: on virtual machines with 2 cores. The oldest figures do not name the processor.
//
// Measured with 2, 3, 4 and 8 ranks, 4 B to 64 MiB.
constexpr std::string_view kMemory = "2 cores, shared memory";
constexpr std::string_view kMemoryBound = "2 cores of an Intel Xeon (family 6, model 207), shared memory, bound ranks";
constexpr std::string_view kMemoryOnEpyc = "2 cores of an AMD EPYC (family 25, model 17), shared memory";
// Measured with 2 to 16 ranks, 1 KiB to 16 MiB.
constexpr std::string_view kLoopback = "2 cores, loopback";
// Simulated with one rank a host, 15 us and 10 Gbit/s. Measurements with 4 hosts on links of 1 Gbit/s agree (64 KiB,
// in multiples of the time that a link needs for the payload alone: tree 1.50, halving 1.10, two_shot 1.07).
constexpr std::string_view kSimulatedRanks = "anello-bench simulate, one rank a host";
// Simulated with 8 ranks on each of 2, 8, 16 and 128 hosts, and 4 ranks on each of 3 and 4 hosts. From 64 KiB on, a
// host sends 2(hosts-1)/hosts of the bytes, which is the minimum. Rings are slower from 3 hosts on: 4 MiB on 4 hosts
// takes 1.23 times the network's time with a ring, and 1.06 times with two_shot.
constexpr std::string_view kSimulatedHosts = "anello-bench simulate, several ranks a host";
// Links of 1 Gbit/s, and hosts that share cores. A message arrives only after its sender's host has had a core, and in
// a ring a rank waits for one neighbour at a time. In us: first the choice for hosts with their own cores, then the
// choice for hosts that share cores.
//   3 hosts of 2 ranks:  4 KiB  71, 71    64 KiB  790, 738    1 MiB 12240, 11828
//   4 hosts of 2 ranks:  4 KiB 108, 71    64 KiB 1017, 830    1 MiB 13870, 13388
//   8 hosts of 1 rank:   4 KiB 402, 109   64 KiB 1348, 1010   1 MiB 19796, 16092
//   8 hosts of 2 ranks:  4 KiB 469, 164   64 KiB 1959, 1072   1 MiB 25434, 17861
constexpr std::string_view kNamespaces = "2 cores, network namespaces on links of 1 Gbit/s";
// Hosts of 3, 2 and 1 rank on links of 1 Gbit/s. If each owner sent its part to every host directly, the largest host
// would send its parts to every other host, which is more than any host must send. Times in multiples of the payload's
// time, first sent directly, then round the hosts: 16 KiB in all 1.35, 1.63; 64 KiB 1.29, 1.08.
constexpr std::string_view kUneven = "2 cores, network namespaces with 3, 2 and 1 rank";
// Simulated with 1 to 8 ranks on each of 1 to 128 hosts, 4 KiB to 64 MiB.
constexpr std::string_view kSimulatedParts = "anello-bench simulate --collective";
constexpr std::string_view kAllElse = "no bound";

// With `shares` on many hosts, a rank folds parts from several other ranks, and reads each part again. Above this bound
// the ring is faster: it sends little more than the minimum, and with `shares` the work within hosts takes longer. 16
// hosts of 8 ranks, 32 KiB a part: 1.35 ms by the ring, 1.48 ms with `shares`.
constexpr std::uint64_t kMaxPartOfManyHosts = 32 * kKiB - 1;

// clang-format off
constexpr std::array kRules = {
    // Allreduce between hosts that share cores; each has one or several ranks.
    Rule{.kinds = kAllreduce, .hosts_are = HostsAre::sharing_cores, .measure = Measure::of_host, .max = 2 * kKiB,
         .algorithm = kLeadersTree, .reason = "hosts that share cores, fewest messages", .measured = kNamespaces},
    Rule{.kinds = kAllreduce, .hosts_are = HostsAre::sharing_cores, .measure = Measure::of_host, .max = 256 * kKiB,
         .algorithm = kLeadersRing, .reason = "hosts that share cores, each rank waits for one neighbour, few messages",
         .measured = kNamespaces},
    Rule{.kinds = kAllreduce, .hosts_are = HostsAre::sharing_cores,
         .algorithm = kSharesRing, .reason = "hosts that share cores, each rank waits for one neighbour",
         .measured = kNamespaces},

    // Allreduce between hosts with several ranks.
    Rule{.kinds = kAllreduce, .ranks = Ranks::several_on_a_host, .hosts = {2, 16}, .max = 4 * kKiB,
         .algorithm = kLeadersOneShot, .reason = "hosts with several ranks, one of them exchanges small buffers",
         .measured = kSimulatedHosts},
    Rule{.kinds = kAllreduce, .ranks = Ranks::several_on_a_host, .max = 4 * kKiB,
         .algorithm = kLeadersDoubling,
         .reason = "hosts with several ranks, log2(hosts) messages deep between one of each",
         .measured = kSimulatedHosts},
    Rule{.kinds = kAllreduce, .ranks = Ranks::several_on_a_host, .hosts = {2, 2},
         .algorithm = kSharesOneShot, .reason = "two hosts with several ranks, each share exchanged once",
         .measured = kSimulatedHosts},
    Rule{.kinds = kAllreduce, .ranks = Ranks::several_on_a_host, .hosts = {3, 4}, .max = 16 * kKiB,
         .algorithm = kSharesOneShot, .reason = "few hosts with several ranks, each share exchanged once",
         .measured = kSimulatedHosts},
    Rule{.kinds = kAllreduce, .ranks = Ranks::several_on_a_host, .hosts = {3, 16},
         .algorithm = kSharesTwoShot,
         .reason = "hosts with several ranks, least traffic between them, two messages deep",
         .measured = kSimulatedHosts},
    Rule{.kinds = kAllreduce, .ranks = Ranks::several_on_a_host,
         .algorithm = kSharesGrid, .reason = "many hosts with several ranks, least traffic between them",
         .measured = kSimulatedHosts},

    // Allreduce in all other cases. The rows after `ring` are for rank order.

    // In us on an AMD EPYC (family 25, model 17), first one_shot, then two_shot. One core: 8 KiB 2.8, 5.0; 64 KiB 8.3,
    // 9.1. Two cores: 2 KiB 0.51, 0.60; 4 KiB 0.84, 0.77; 8 KiB 1.4, 0.9; 32 KiB 5.1, 2.0. Two cores without a common
    // cache: 2 KiB 1.6, 1.6; 4 KiB 2.7, 2.2; 8 KiB 4.9, 2.4; 32 KiB 17.7, 5.1.
    Rule{.kinds = kAllreduce, .medium = Medium::memory, .cores = Cores::shared, .world = {2, 2}, .max = 64 * kKiB,
         .algorithm = Algorithm::one_shot, .reason = "two ranks, one exchange", .measured = kMemoryOnEpyc},
    Rule{.kinds = kAllreduce, .medium = Medium::memory, .world = {2, 2}, .max = 2 * kKiB,
         .algorithm = Algorithm::one_shot, .reason = "two ranks, one exchange", .measured = kMemoryOnEpyc},
    Rule{.kinds = kAllreduce, .medium = Medium::memory, .world = {2, 2},
         .algorithm = Algorithm::two_shot, .reason = "two ranks, least copying", .measured = kMemoryOnEpyc},
    Rule{.kinds = kAllreduce, .medium = Medium::tcp, .world = {2, 2}, .max = 256 * kKiB,
         .algorithm = Algorithm::one_shot, .reason = "two ranks, one exchange", .measured = kLoopback},
    // 3 ranks in us, first by a star: 4 B 4.1, 2.5; 1 KiB 4.3, 2.9; 4 KiB 5.1, 4.3; 8 KiB 5.9, 6.1.
    Rule{.kinds = kAllreduce, .medium = Medium::memory, .cores = Cores::shared, .world = {3, 3}, .max = 4 * kKiB,
         .algorithm = Algorithm::one_shot, .reason = "few ranks, one message deep", .measured = kMemoryOnEpyc},
    Rule{.kinds = kAllreduce, .medium = Medium::memory, .cores = Cores::shared, .world = {4, 4}, .max = 2 * kKiB,
         .algorithm = Algorithm::one_shot, .reason = "few ranks, one message deep", .measured = kMemoryOnEpyc},
    // Neighbours that share a core exchange data that is still in its cache, and need not wait for another core. Mean
    // times in us, first without these rows, then with them: 3 ranks, 1 MiB 293, 280; 4 ranks, 8 KiB 9.0, 6.9; 64 KiB
    // 27, 22; 1 MiB 334, 314; 8 ranks, 256 KiB 263, 190. Ranks that are not bound are slower by these algorithms from 1
    // MiB on.
    Rule{.kinds = kAllreduce, .medium = Medium::memory, .cores = Cores::bound, .world = {4, 4}, .max = 16 * kKiB,
         .algorithm = Algorithm::recursive_doubling, .reason = "bound ranks, two messages deep",
         .measured = kMemoryBound},
    Rule{.kinds = kAllreduce, .medium = Medium::memory, .cores = Cores::bound, .world = {4, 4}, .max = 4 * kMiB,
         .algorithm = Algorithm::halving, .reason = "bound ranks, most data between neighbours",
         .measured = kMemoryBound},
    Rule{.kinds = kAllreduce, .medium = Medium::memory, .cores = Cores::bound, .world = {3, 3}, .max = 4 * kMiB,
         .algorithm = Algorithm::tree, .reason = "bound ranks, most data between neighbours",
         .measured = kMemoryBound},
    Rule{.kinds = kAllreduce, .medium = Medium::memory, .cores = Cores::bound, .world = {8, 8}, .max = 32 * kKiB,
         .algorithm = Algorithm::star, .reason = "shared cores, fewest messages", .measured = kMemoryBound},
    Rule{.kinds = kAllreduce, .medium = Medium::memory, .cores = Cores::bound, .world = {8, 8}, .max = 512 * kKiB,
         .algorithm = Algorithm::tree, .reason = "bound ranks, most data between neighbours",
         .measured = kMemoryBound},
    Rule{.kinds = kAllreduce, .medium = Medium::memory, .cores = Cores::shared, .world = {3, 32}, .max = 64 * kKiB,
         .algorithm = Algorithm::star, .reason = "shared cores, fewest messages", .measured = kMemoryOnEpyc},
    Rule{.kinds = kAllreduce, .medium = Medium::memory, .cores = Cores::shared, .world = {3, 32},
         .algorithm = Algorithm::ring, .reason = "shared cores, least copying", .measured = kMemory},
    Rule{.kinds = kAllreduce, .cores = Cores::shared, .world = {3, 32}, .max = 16 * kKiB,
         .algorithm = Algorithm::star, .reason = "shared cores, fewest messages", .measured = kLoopback},
    Rule{.kinds = kAllreduce, .cores = Cores::shared, .world = {3}, .max = 512 * kKiB,
         .algorithm = Algorithm::tree, .reason = "shared cores, fewest messages, load spread", .measured = kLoopback},
    Rule{.kinds = kAllreduce, .cores = Cores::shared, .world = {4, 8}, .power_of_two = true, .max = 2 * kMiB,
         .algorithm = Algorithm::halving, .reason = "few messages, least traffic", .measured = kLoopback},
    Rule{.kinds = kAllreduce, .cores = Cores::shared, .world = {9}, .max = 2 * kMiB,
         .algorithm = Algorithm::tree, .reason = "many ranks share cores, messages cost most", .measured = kLoopback},
    Rule{.kinds = kAllreduce, .cores = Cores::own, .world = {3, 16}, .max = 4 * kKiB,
         .algorithm = Algorithm::one_shot, .reason = "few ranks, one message deep", .measured = kSimulatedRanks},
    Rule{.kinds = kAllreduce, .cores = Cores::own, .world = {3, 16}, .max = 256 * kKiB,
         .algorithm = Algorithm::two_shot, .reason = "few ranks, two messages deep, least traffic",
         .measured = kSimulatedRanks},
    Rule{.kinds = kAllreduce, .cores = Cores::own, .world = {3}, .max = 4 * kKiB,
         .algorithm = Algorithm::recursive_doubling, .reason = "small, half as deep as the tree",
         .measured = kSimulatedRanks},
    Rule{.kinds = kAllreduce, .cores = Cores::own, .world = {4}, .power_of_two = true, .max = kMiB,
         .algorithm = Algorithm::halving, .reason = "log2(world) deep, least traffic", .measured = kSimulatedRanks},
    Rule{.kinds = kAllreduce, .cores = Cores::own, .world = {4}, .power_of_two = true, .measure = Measure::part,
         .max = 64 * kKiB,
         .algorithm = Algorithm::halving, .reason = "log2(world) deep, least traffic", .measured = kSimulatedRanks},
    Rule{.kinds = kAllreduce, .cores = Cores::own, .world = {3}, .max = 64 * kKiB,
         .algorithm = Algorithm::tree, .reason = "small, log2(world) deep", .measured = kSimulatedRanks},
    Rule{.kinds = kAllreduce,
         .algorithm = Algorithm::ring, .reason = "large, least traffic", .measured = kAllElse},
    Rule{.kinds = kAllreduce, .world = {2, 2},
         .algorithm = Algorithm::two_shot, .reason = "rank order, two ranks, least traffic", .measured = kAllElse},
    Rule{.kinds = kAllreduce, .world = {3}, .max = 256 * kKiB,
         .algorithm = Algorithm::star, .reason = "rank order, fewest messages", .measured = kLoopback},
    Rule{.kinds = kAllreduce, .world = {3, 8}, .max = 2 * kMiB,
         .algorithm = Algorithm::two_shot, .reason = "rank order, two messages deep", .measured = kLoopback},
    Rule{.kinds = kAllreduce, .world = {3},
         .algorithm = Algorithm::chain, .reason = "rank order, large", .measured = kAllElse},
    Rule{.kinds = kAllreduce, .world = {3},
         .algorithm = Algorithm::two_shot, .reason = "rank order, large, rounded alike", .measured = kAllElse},

    // Collectives of parts on one host, and on hosts with one rank each.
    Rule{.kinds = kAllgather, .ranks = Ranks::on_one_host, .measure = Measure::part, .max = 64 * kKiB,
         .algorithm = Algorithm::grid, .reason = "one host, few messages deep", .measured = kSimulatedParts},
    Rule{.kinds = kReduceScatter, .ranks = Ranks::on_one_host, .measure = Measure::part, .max = 16 * kKiB,
         .algorithm = Algorithm::grid, .reason = "one host, few messages deep", .measured = kSimulatedParts},
    Rule{.kinds = kParts, .ranks = Ranks::on_one_host,
         .algorithm = Algorithm::ring, .reason = "one host, large parts", .measured = kAllElse},
    Rule{.kinds = kParts, .ranks = Ranks::one_on_each_host, .measure = Measure::part, .max = 4 * kKiB,
         .algorithm = Algorithm::grid, .reason = "few messages deep, least traffic", .measured = kNamespaces},
    Rule{.kinds = kParts, .ranks = Ranks::one_on_each_host, .hosts_are = HostsAre::on_own_cores,
         .measure = Measure::part, .max = 64 * kKiB,
         .algorithm = Algorithm::grid, .reason = "few messages deep, least traffic", .measured = kSimulatedParts},
    Rule{.kinds = kParts, .ranks = Ranks::one_on_each_host,
         .algorithm = Algorithm::ring, .reason = "large parts, two peers", .measured = kAllElse},

    // Collectives of parts on hosts with several ranks. Data that is sent directly to each host needs as many links as
    // there are hosts.
    Rule{.kinds = kParts, .ranks = Ranks::several_on_a_host, .hosts = {3}, .measure = Measure::part, .max = 255,
         .algorithm = Algorithm::grid, .reason = "tiny parts, fewest messages deep", .measured = kSimulatedParts},
    Rule{.kinds = kReduceScatter, .ranks = Ranks::several_on_a_host, .hosts = {9, 128}, .measure = Measure::part,
         .max = 4 * kKiB,
         .algorithm = kSharesTwoShot, .reason = "hosts with several ranks, each part sent once to every host",
         .measured = kUneven},
    Rule{.kinds = kReduceScatter, .ranks = Ranks::several_on_a_host, .hosts_are = HostsAre::alike, .hosts = {9, 128},
         .measure = Measure::part, .max = kMaxPartOfManyHosts,
         .algorithm = kSharesTwoShot, .reason = "hosts with several ranks, each part sent once to every host",
         .measured = kSimulatedParts},
    Rule{.kinds = kReduceScatter, .ranks = Ranks::several_on_a_host, .hosts = {9}, .measure = Measure::part,
         .max = kMaxPartOfManyHosts,
         .algorithm = kSharesRing, .reason = "hosts with several ranks, each part passes every host once",
         .measured = kSimulatedParts},
    Rule{.kinds = kReduceScatter, .ranks = Ranks::several_on_a_host, .hosts = {9},
         .algorithm = Algorithm::ring, .reason = "many hosts, large parts", .measured = kAllElse},
    Rule{.kinds = kParts, .ranks = Ranks::several_on_a_host, .hosts = {2, 128}, .measure = Measure::part,
         .max = 4 * kKiB,
         .algorithm = kSharesTwoShot, .reason = "hosts with several ranks, each part sent once to every host",
         .measured = kUneven},
    Rule{.kinds = kParts, .ranks = Ranks::several_on_a_host, .hosts_are = HostsAre::alike, .hosts = {2, 128},
         .measure = Measure::part, .max = 64 * kKiB - 1,
         .algorithm = kSharesTwoShot, .reason = "hosts with several ranks, each part sent once to every host",
         .measured = kSimulatedParts},
    Rule{.kinds = kParts, .ranks = Ranks::several_on_a_host,
         .algorithm = kSharesRing, .reason = "hosts with several ranks, each part passes every host once",
         .measured = kAllElse},
    Rule{.kinds = kReduceScatter, .order = Order::of_ranks,
         .algorithm = Algorithm::two_shot, .reason = "rank order, straight to each owner", .measured = kAllElse},

    // Trees. In a chain of hosts the depth is the number of hosts, and each host sends all data once. The root of a
    // binomial tree sends all data log2(hosts) times, the root of a binary tree twice. Between ranks that share the
    // cores of one host, all trees move the same number of bytes. But in a chain with several slabs, the sums of a
    // reduce are still in the cache when a rank passes them on.
    Rule{.kinds = kReduce, .ranks = Ranks::on_one_host, .measure = Measure::further_slabs, .max = 0,
         .algorithm = Algorithm::tree, .reason = "log2(world) messages deep", .measured = kMemory},
    Rule{.kinds = kBroadcast, .cores = Cores::shared, .ranks = Ranks::on_one_host,
         .algorithm = Algorithm::tree, .reason = "log2(world) messages deep", .measured = kMemory},
    Rule{.kinds = kBroadcast, .ranks = Ranks::on_one_host, .max = 4 * kMiB - 1,
         .algorithm = Algorithm::tree, .reason = "log2(world) messages deep", .measured = kSimulatedParts},
    Rule{.kinds = kTrees, .hosts = {2, 2}, .max = 256 * kKiB - 1,
         .algorithm = Algorithm::tree, .reason = "log2(world) messages deep", .measured = kSimulatedParts},
    Rule{.kinds = kTrees, .hosts = {3, 16}, .measure = Measure::of_host, .max = 32 * kKiB - 1,
         .algorithm = Algorithm::tree, .reason = "log2(world) messages deep", .measured = kSimulatedParts},
    Rule{.kinds = kTrees, .hosts = {17}, .max = 64 * kKiB - 1,
         .algorithm = Algorithm::tree, .reason = "log2(world) messages deep", .measured = kSimulatedParts},
    Rule{.kinds = kTrees, .hosts = {17}, .measure = Measure::of_host, .max = 32 * kKiB - 1,
         .algorithm = Algorithm::halving, .reason = "medium, many hosts, each rank passes it on twice",
         .measured = kSimulatedParts},
    Rule{.kinds = kTrees,
         .algorithm = Algorithm::ring, .reason = "large, each rank passes it on once", .measured = kAllElse},
    Rule{.kinds = kReduce, .max = 256 * kKiB, .order = Order::of_ranks,
         .algorithm = Algorithm::star, .reason = "rank order, at the root", .measured = kLoopback},
    Rule{.kinds = kReduce, .order = Order::of_ranks_if_wide,
         .algorithm = Algorithm::chain, .reason = "rank order, large", .measured = kAllElse},
    Rule{.kinds = kReduce, .order = Order::of_ranks,
         .algorithm = Algorithm::star, .reason = "rank order, at the root", .measured = kAllElse},
};
// clang-format on

bool ranks_are(Ranks ranks, const Facts& facts) {
  switch (ranks) {
    case Ranks::anywhere:
      return true;
    case Ranks::on_one_host:
      return facts.hosts == 1;
    case Ranks::one_on_each_host:
      return facts.hosts > 1 && !hosts_have_several_ranks(facts);
    case Ranks::several_on_a_host:
      return hosts_have_several_ranks(facts);
  }
  return false;
}

bool cores_are(Cores cores, const Facts& facts) {
  switch (cores) {
    case Cores::any:
      return true;
    case Cores::shared:
      return facts.oversubscribed;
    case Cores::bound:
      return facts.bound;
    case Cores::own:
      return !facts.oversubscribed;
  }
  return false;
}

bool hosts_are(HostsAre what, const Facts& facts) {
  const bool share_cores = passes_round_hosts(facts);
  switch (what) {
    case HostsAre::any:
      return true;
    case HostsAre::sharing_cores:
      return share_cores;
    case HostsAre::on_own_cores:
      return !share_cores;
    case HostsAre::alike:
      return !share_cores && !facts.uneven;
  }
  return false;
}

std::uint64_t measure(Measure measure, Kind kind, const Facts& facts) {
  switch (measure) {
    case Measure::buffer:
      return facts.bytes;
    case Measure::part:
      return std::max(facts.largest_part_bytes, facts.bytes / std::uint64_t(facts.world));
    case Measure::of_host:
      return facts.bytes / std::uint64_t(facts.hosts);
    case Measure::further_slabs:
      return slab_elems(kind, facts, Algorithm::ring) > 0 ? 1 : 0;
  }
  return kAnySize;
}

bool order_suits(const Rule& rule, Kind kind, const Facts& facts) {
  if (kind == Kind::allreduce) return keeps_order(rule.algorithm, facts);
  if (!facts.rank_order || !facts_of(kind).reduces) return rule.order == Order::any;
  return rule.order == Order::of_ranks || (rule.order == Order::of_ranks_if_wide && !facts.narrow);
}

// If the number of ranks has a large prime factor, the grid has lines of that length, and each rank needs a link to
// every rank of its line.
bool lines_are_short(const Rule& rule, const Facts& facts) {
  constexpr int kMaxLine = 32;
  return rule.algorithm != Algorithm::grid || Grid::longest_line(facts.world, Grid::kMaxLine) <= kMaxLine;
}

}  // namespace

std::span<const Rule> rules() {
  return kRules;
}

bool keeps_order(Algorithm algorithm, const Facts& facts) {
  return !facts.rank_order || reproducible(algorithm, facts.narrow);
}

bool is_for(const Rule& rule, Kind kind) {
  return (rule.kinds & of(kind)) != 0;
}

bool may_use(const Rule& rule, Kind kind, const Facts& facts) {
  const bool has_levels = levels_of(rule.algorithm) != Levels::one;
  return is_for(rule, kind) && order_suits(rule, kind, facts) && (!has_levels || hosts_have_several_ranks(facts));
}

bool fits(const Rule& rule, Kind kind, const Facts& facts) {
  const bool medium = rule.medium == Medium::any || (rule.medium == Medium::memory) == facts.memory;
  const bool shape = !rule.power_of_two || std::has_single_bit(unsigned(facts.world));
  return is_for(rule, kind) && medium && cores_are(rule.cores, facts) && shape && ranks_are(rule.ranks, facts) &&
         hosts_are(rule.hosts_are, facts) && rule.world.has(facts.world) && rule.hosts.has(facts.hosts) &&
         measure(rule.measure, kind, facts) <= rule.max && order_suits(rule, kind, facts) &&
         lines_are_short(rule, facts);
}

std::uint64_t fingerprint_of_rules() {
  std::uint64_t all = 0;
  for (const Rule& rule : kRules)
    for (const std::uint64_t value :
         {std::uint64_t(rule.kinds), std::uint64_t(rule.medium), std::uint64_t(rule.cores), std::uint64_t(rule.ranks),
          std::uint64_t(rule.hosts_are), std::uint64_t(rule.world.min), std::uint64_t(rule.world.max),
          std::uint64_t(rule.hosts.min), std::uint64_t(rule.hosts.max), std::uint64_t(rule.power_of_two),
          std::uint64_t(rule.measure), rule.max, std::uint64_t(rule.order), std::uint64_t(rule.algorithm)})
      all = fingerprint(all, value);
  return all;
}

}  // namespace anello::algorithms
