// Chooses for the collectives other than allreduce. The bounds are from `anello-bench simulate --collective` with 1 to
// 8 ranks on each of 1 to 128 hosts, 4 KiB to 64 MiB.
#include <algorithm>
#include <array>
#include <limits>

#include "ring/algorithms/building_blocks.hpp"
#include "ring/algorithms/selection.hpp"
#include "ring/base/check.hpp"

namespace anello::algorithms {
namespace {

constexpr std::uint64_t kAnyPart = std::numeric_limits<std::uint64_t>::max();
constexpr int kAnyHosts = std::numeric_limits<int>::max();
constexpr Algorithm kStraightInShares = in_levels(Levels::shares, Algorithm::two_shot),
                    kRingInShares = in_levels(Levels::shares, Algorithm::ring);

enum class Layout { one_host, one_rank_each, several_ranks };

// A row for allgather or reduce_scatter.
struct PartsRow {
  Layout layout;
  int min_hosts, max_hosts;
  std::uint64_t max_part_bytes;  // of the rank with the largest part
  Algorithm algorithm;
  std::string_view reason;
};

constexpr PartsRow kSmallOfOneRank = {
    Layout::one_rank_each, 2, kAnyHosts, 64 << 10, Algorithm::grid, "few messages deep, least traffic"};
constexpr PartsRow kLargeOfOneRank = {Layout::one_rank_each,   2, kAnyHosts, kAnyPart, Algorithm::ring,
                                      "large parts, two peers"};
constexpr PartsRow kTiny = {
    Layout::several_ranks, 3, kAnyHosts, 255, Algorithm::grid, "tiny parts, fewest messages deep"};
// Sends directly to each host, so a rank has as many links as there are hosts.
constexpr PartsRow kSmall = {Layout::several_ranks,
                             2,
                             128,
                             (64 << 10) - 1,
                             kStraightInShares,
                             "hosts with several ranks, each part sent once to every host"};
constexpr PartsRow kOthers = {Layout::several_ranks,
                              2,
                              kAnyHosts,
                              kAnyPart,
                              kRingInShares,
                              "hosts with several ranks, each part passes every host once"};

constexpr std::array kAllgatherRows = {
    PartsRow{Layout::one_host, 1, 1, 64 << 10, Algorithm::grid, "one host, few messages deep"},
    PartsRow{Layout::one_host, 1, 1, kAnyPart, Algorithm::ring, "one host, large parts"},
    kSmallOfOneRank,
    kLargeOfOneRank,
    kTiny,
    kSmall,
    kOthers,
};
// Upper bound for a reduce_scatter in shares on many hosts: a rank that folds parts from several others reads each part
// again. Above it the ring is faster, because it sends little more than the minimum, and in shares the work within
// hosts takes longer: 16 hosts of 8 ranks, 32 KiB a part, 1.35 ms by the ring, 1.48 ms in shares.
constexpr std::uint64_t kMaxPartOfManyHosts = (32 << 10) - 1;
constexpr std::array kReduceScatterRows = {
    PartsRow{Layout::one_host, 1, 1, 16 << 10, Algorithm::grid, "one host, few messages deep"},
    PartsRow{Layout::one_host, 1, 1, kAnyPart, Algorithm::ring, "one host, large parts"},
    kSmallOfOneRank,
    kLargeOfOneRank,
    kTiny,
    PartsRow{Layout::several_ranks, 9, 128, kMaxPartOfManyHosts, kSmall.algorithm, kSmall.reason},
    PartsRow{Layout::several_ranks, 9, kAnyHosts, kMaxPartOfManyHosts, kOthers.algorithm, kOthers.reason},
    PartsRow{Layout::several_ranks, 9, kAnyHosts, kAnyPart, Algorithm::ring, "many hosts, large parts"},
    kSmall,
    kOthers,
};

Layout layout_of(const Facts& facts) {
  if (facts.hosts == 1) return Layout::one_host;
  return hosts_have_several_ranks(facts) ? Layout::several_ranks : Layout::one_rank_each;
}

// If hosts are unequal, the largest host would send its parts to every other host, which is more than any host must
// send. Measured between hosts of 3, 2 and 1 rank on links of 1 Gbit/s, in multiples of the payload's time, directly
// and round the hosts: 16 KiB in all 1.35, 1.63; 64 KiB 1.29, 1.08.
bool suits_unequal_hosts(const PartsRow& row, const Facts& facts, std::uint64_t part_bytes) {
  constexpr std::uint64_t kMaxUneven = 4 << 10;
  return row.algorithm != kStraightInShares || !facts.uneven || part_bytes <= kMaxUneven;
}

// Between hosts that share cores, it is faster if a rank waits for one neighbour at a time, as in an allreduce
// (selection.cpp).
bool suits_shared_cores(const PartsRow& row, const Facts& facts, std::uint64_t part_bytes) {
  constexpr std::uint64_t kMaxShared = 4 << 10;
  const bool straight = row.algorithm == Algorithm::grid || row.algorithm == kStraightInShares;
  return !straight || !passes_round_hosts(facts) || part_bytes <= kMaxShared;
}

// If the number of ranks has a large prime factor, the grid has lines of that length, and a rank has a link to each
// rank of its line.
bool may_take_grid(const PartsRow& row, const Facts& facts) {
  constexpr int kMaxLine = 32;
  return row.algorithm != Algorithm::grid || Grid::longest_line(facts.world, Grid::kMaxLine) <= kMaxLine;
}

bool fits(const PartsRow& row, const Facts& facts) {
  const std::uint64_t part_bytes = std::max(facts.largest_part_bytes, facts.bytes / std::uint64_t(facts.world));
  return row.layout == layout_of(facts) && facts.hosts >= row.min_hosts && facts.hosts <= row.max_hosts &&
         part_bytes <= row.max_part_bytes && suits_unequal_hosts(row, facts, part_bytes) &&
         suits_shared_cores(row, facts, part_bytes) && may_take_grid(row, facts);
}

Choice with_slab(Kind kind, const Facts& facts, Algorithm algorithm, std::string_view reason) {
  return {algorithm, slab_elems(kind, facts, algorithm), reason};
}

Choice choose_for_parts(Kind kind, std::span<const PartsRow> rows, const Facts& facts) {
  const auto row = std::ranges::find_if(rows, [&](const PartsRow& each) { return fits(each, facts); });
  ANELLO_CHECK(row != rows.end());
  return with_slab(kind, facts, row->algorithm, row->reason);
}

std::uint64_t fingerprint_of_rows(std::span<const PartsRow> rows, std::uint64_t before) {
  for (const PartsRow& row : rows)
    for (const std::uint64_t value : {std::uint64_t(row.layout), std::uint64_t(row.min_hosts),
                                      std::uint64_t(row.max_hosts), row.max_part_bytes, std::uint64_t(row.algorithm)})
      before = fingerprint(before, value);
  return before;
}

// In a chain of hosts the depth is the number of hosts, and each host sends everything once; the root of a binomial
// tree sends it log2(hosts) times, and in a binary tree twice. Between ranks that share the cores of one host, all
// trees move the same number of bytes; but in a chain of several slabs a reduce's sums are still in the cache when they
// are passed on.
bool pays_round_the_ring(Kind kind, const Facts& facts) {
  constexpr std::uint64_t kMinOfHost = 32 << 10, kMinOfTwo = 256 << 10, kMinOnOneHost = 4 << 20;
  if (facts.hosts > 1) return facts.bytes >= (facts.hosts == 2 ? kMinOfTwo : std::uint64_t(facts.hosts) * kMinOfHost);
  if (kind == Kind::reduce) return slab_elems(kind, facts, Algorithm::ring) > 0;
  return !facts.oversubscribed && facts.bytes >= kMinOnOneHost;
}

Choice choose_tree(Kind kind, const Facts& facts) {
  constexpr int kManyHosts = 17;
  constexpr std::uint64_t kMinOfBinary = 64 << 10;
  if (pays_round_the_ring(kind, facts))
    return with_slab(kind, facts, Algorithm::ring, "large, each rank passes it on once");
  if (facts.hosts >= kManyHosts && facts.bytes >= kMinOfBinary)
    return with_slab(kind, facts, Algorithm::halving, "medium, many hosts, each rank passes it on twice");
  return with_slab(kind, facts, Algorithm::tree, "log2(world) messages deep");
}

// A barrier is an allreduce of one byte whose value does not matter, so the settings for allreduce do not apply.
Facts of_barrier(Facts facts) {
  facts.bytes = facts.elem_bytes = 1;
  facts.slab_bytes = kSuitableSlab;
  facts.rank_order = facts.narrow = false;
  facts.forced = Algorithm::automatic;
  return facts;
}

Choice choose_in_rank_order(Kind kind, const Facts& facts) {
  constexpr std::uint64_t kMaxAtRoot = 256 << 10;
  if (kind == Kind::reduce_scatter)
    return with_slab(kind, facts, Algorithm::two_shot, "rank order, straight to each owner");
  if (facts.narrow || facts.bytes <= kMaxAtRoot)
    return with_slab(kind, facts, Algorithm::star, "rank order, at the root");
  return with_slab(kind, facts, Algorithm::chain, "rank order, large");
}

}  // namespace

std::vector<Algorithm> algorithms_for(Kind kind, const Facts& facts) {
  std::vector<Algorithm> all;
  switch (kind) {
    case Kind::allreduce:
      return algorithms_for(facts);
    case Kind::barrier:
      return algorithms_for(of_barrier(facts));
    case Kind::broadcast:
    case Kind::reduce:
      all = {Algorithm::tree, Algorithm::halving, Algorithm::ring};
      if (kind == Kind::reduce && facts.rank_order) all = {Algorithm::star, Algorithm::chain};
      return all;
    case Kind::allgather:
    case Kind::reduce_scatter:
      if (kind == Kind::reduce_scatter && facts.rank_order) return {Algorithm::two_shot};
      all = {Algorithm::ring, Algorithm::grid};
      if (hosts_have_several_ranks(facts)) all.insert(all.end(), {kStraightInShares, kRingInShares});
      return all;
    default:
      return {Algorithm::automatic};
  }
}

Choice choose(Kind kind, const Facts& facts, std::span<const TableRow> table) {
  if (kind != Kind::allreduce && facts_of(kind).reduces && facts.rank_order) return choose_in_rank_order(kind, facts);
  switch (kind) {
    case Kind::allreduce:
      return choose(facts, table);
    case Kind::allgather:
      return choose_for_parts(kind, kAllgatherRows, facts);
    case Kind::reduce_scatter:
      return choose_for_parts(kind, kReduceScatterRows, facts);
    case Kind::broadcast:
    case Kind::reduce:
      return choose_tree(kind, facts);
    case Kind::barrier:
      return choose(of_barrier(facts), {});
    default:
      return {Algorithm::automatic, 0, "the one algorithm it has"};
  }
}

std::uint64_t fingerprint_of_collective_choices(std::uint64_t before) {
  before = fingerprint_of_rows(kReduceScatterRows, fingerprint_of_rows(kAllgatherRows, before));
  for (const Kind kind : {Kind::allgather, Kind::reduce_scatter, Kind::broadcast, Kind::reduce, Kind::barrier})
    for (const int hosts : {1, 2, 4, 16, 64, 256})
      for (const int ranks : {1, 8})
        for (std::uint64_t bytes = 1; bytes < 1ULL << 32; bytes *= 4)
          for (const unsigned more : {0U, 1U, 2U, 3U}) {
            const Facts facts{.world = hosts * ranks,
                              .oversubscribed = more == 3,
                              .hosts = hosts,
                              .uneven = more == 1,
                              .bytes = bytes,
                              .rank_order = more == 2};
            const Choice choice = choose(kind, facts);
            before = fingerprint(fingerprint(before, std::uint64_t(choice.algorithm)), choice.slab_elems);
          }
  return before;
}

}  // namespace anello::algorithms
