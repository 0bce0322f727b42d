#include "ring/algorithms/selection.hpp"

#include <algorithm>
#include <anello/error.hpp>
#include <array>
#include <bit>
#include <limits>
#include <optional>

#include "ring/base/check.hpp"
#include "ring/base/text.hpp"

namespace anello::algorithms {
namespace {

constexpr std::uint64_t kKiB = 1024, kMiB = 1024 * kKiB;
constexpr std::uint64_t kAnyBytes = std::numeric_limits<std::uint64_t>::max();
constexpr int kAnyWorld = std::numeric_limits<int>::max();
// The smallest chunk of one rank in a slab that is worth a message. It also bounds the number of steps of a plan.
constexpr std::uint64_t kMinChunkBytes = 16 * kKiB, kMinChunkBytesBetweenHosts = 256 * kKiB;
// In two levels a slab has at least this size for each host, because the number of messages between hosts grows with
// the number of hosts; but this minimum is at most the maximum below.
constexpr std::uint64_t kMinSlabOfHost = 12 * kKiB, kMaxSlabOfTwoLevels = 512 * kKiB;

enum class Cores { any, shared, own };
enum class Medium { any, tcp, memory };
enum class Worlds { any, power_of_two };

struct Row {
  Medium medium;
  Cores cores;
  int min_world, max_world;
  Worlds worlds;
  std::uint64_t max_bytes;        // or
  std::uint64_t max_chunk_bytes;  // for each rank
  Algorithm algorithm;
  std::string_view reason;
};

// The first matching row is taken; in rank order, the first matching row whose algorithm keeps that order, which makes
// the rows below `ring` reachable. The bounds for shared cores and for two ranks were measured on 2 cores: over
// loopback with 2 to 16 ranks and 1 KiB to 16 MiB; through memory with 2, 3, 4 and 8 ranks and 4 B to 64 MiB. The
// bounds for own cores come from `anello-bench simulate`; measurements with 4 hosts on links of 1 Gbit/s agree (64 KiB:
// tree takes 1.50 times the payload's time, halving 1.10, two_shot 1.07).
constexpr std::array kRows = {
    Row{Medium::memory, Cores::any, 2, 2, Worlds::any, 32 * kKiB, 0, Algorithm::one_shot, "two ranks, one exchange"},
    Row{Medium::memory, Cores::any, 2, 2, Worlds::any, kAnyBytes, 0, Algorithm::two_shot, "two ranks, least copying"},
    Row{Medium::tcp, Cores::any, 2, 2, Worlds::any, 256 * kKiB, 0, Algorithm::one_shot, "two ranks, one exchange"},
    Row{Medium::memory, Cores::shared, 4, 4, Worlds::any, 2 * kKiB, 0, Algorithm::one_shot,
        "few ranks, one message deep"},
    Row{Medium::memory, Cores::shared, 3, 32, Worlds::any, 64 * kKiB, 0, Algorithm::star,
        "shared cores, fewest messages"},
    Row{Medium::memory, Cores::shared, 3, 32, Worlds::any, kAnyBytes, 0, Algorithm::ring,
        "shared cores, least copying"},
    Row{Medium::any, Cores::shared, 3, 32, Worlds::any, 16 * kKiB, 0, Algorithm::star, "shared cores, fewest messages"},
    Row{Medium::any, Cores::shared, 3, kAnyWorld, Worlds::any, 512 * kKiB, 0, Algorithm::tree,
        "shared cores, fewest messages, load spread"},
    Row{Medium::any, Cores::shared, 4, 8, Worlds::power_of_two, 2 * kMiB, 0, Algorithm::halving,
        "few messages, least traffic"},
    Row{Medium::any, Cores::shared, 9, kAnyWorld, Worlds::any, 2 * kMiB, 0, Algorithm::tree,
        "many ranks share cores, messages cost most"},
    Row{Medium::any, Cores::own, 3, 16, Worlds::any, 4 * kKiB, 0, Algorithm::one_shot, "few ranks, one message deep"},
    Row{Medium::any, Cores::own, 3, 16, Worlds::any, 256 * kKiB, 0, Algorithm::two_shot,
        "few ranks, two messages deep, least traffic"},
    Row{Medium::any, Cores::own, 3, kAnyWorld, Worlds::any, 4 * kKiB, 0, Algorithm::recursive_doubling,
        "small, half as deep as the tree"},
    Row{Medium::any, Cores::own, 4, kAnyWorld, Worlds::power_of_two, kMiB, 64 * kKiB, Algorithm::halving,
        "log2(world) deep, least traffic"},
    Row{Medium::any, Cores::own, 3, kAnyWorld, Worlds::any, 64 * kKiB, 0, Algorithm::tree, "small, log2(world) deep"},
    Row{Medium::any, Cores::any, 2, kAnyWorld, Worlds::any, kAnyBytes, 0, Algorithm::ring, "large, least traffic"},
    Row{Medium::any, Cores::any, 2, 2, Worlds::any, kAnyBytes, 0, Algorithm::two_shot,
        "rank order, two ranks, least traffic"},
    Row{Medium::any, Cores::any, 3, kAnyWorld, Worlds::any, 256 * kKiB, 0, Algorithm::star,
        "rank order, fewest messages"},
    Row{Medium::any, Cores::any, 3, 8, Worlds::any, 2 * kMiB, 0, Algorithm::two_shot, "rank order, two messages deep"},
    Row{Medium::any, Cores::any, 3, kAnyWorld, Worlds::any, kAnyBytes, 0, Algorithm::chain, "rank order, large"},
    Row{Medium::any, Cores::any, 3, kAnyWorld, Worlds::any, kAnyBytes, 0, Algorithm::two_shot,
        "rank order, large, rounded alike"},
};

// For hosts with several ranks, if rank order need not be kept. From `anello-bench simulate` with 8 ranks on each of 2,
// 8, 16 and 128 hosts, and 4 ranks on each of 3 and 4 hosts. From 64 KiB on, a host sends 2(hosts-1)/hosts of the
// bytes, which is the minimum. Rings are slower from 3 hosts on: 4 MiB on 4 hosts takes 1.23 times the network's time,
// and two_shot 1.06.
struct HostsRow {
  int max_hosts;
  std::uint64_t max_bytes;
  Algorithm algorithm;
  std::string_view reason;
};
constexpr std::array kHostsRows = {
    HostsRow{16, 4 * kKiB, in_levels(Levels::leaders, Algorithm::one_shot),
             "hosts with several ranks, one of them exchanges small buffers"},
    HostsRow{kAnyWorld, 4 * kKiB, in_levels(Levels::leaders, Algorithm::recursive_doubling),
             "hosts with several ranks, log2(hosts) messages deep between one of each"},
    HostsRow{2, kAnyBytes, in_levels(Levels::shares, Algorithm::one_shot),
             "two hosts with several ranks, each share exchanged once"},
    HostsRow{4, 16 * kKiB, in_levels(Levels::shares, Algorithm::one_shot),
             "few hosts with several ranks, each share exchanged once"},
    HostsRow{16, kAnyBytes, in_levels(Levels::shares, Algorithm::two_shot),
             "hosts with several ranks, least traffic between them, two messages deep"},
    HostsRow{kAnyWorld, kAnyBytes, in_levels(Levels::shares, Algorithm::grid),
             "many hosts with several ranks, least traffic between them"},
};

// For 3 to 16 hosts, such as containers, on one machine with fewer cores than ranks; each host has one or several
// ranks. A message comes only after another host has had a core, and in a ring a rank waits for one neighbour at a
// time. Measured between namespaces with links of 1 Gbit/s on 2 cores, in us: first the choice for other hosts, then
// this one.
//   3 hosts of 2 ranks:  4 KiB  71, 71    64 KiB  790, 738    1 MiB 12240, 11828
//   4 hosts of 2 ranks:  4 KiB 108, 71    64 KiB 1017, 830    1 MiB 13870, 13388
//   8 hosts of 1 rank:   4 KiB 402, 109   64 KiB 1348, 1010   1 MiB 19796, 16092
//   8 hosts of 2 ranks:  4 KiB 469, 164   64 KiB 1959, 1072   1 MiB 25434, 17861
struct SharedHostsRow {
  std::uint64_t max_bytes_of_host;  // buffer size divided by the number of hosts
  Algorithm algorithm;
  std::string_view reason;
};
constexpr std::array kSharedHostsRows = {
    SharedHostsRow{2 * kKiB, in_levels(Levels::leaders, Algorithm::tree), "hosts that share cores, fewest messages"},
    SharedHostsRow{256 * kKiB, in_levels(Levels::leaders, Algorithm::ring),
                   "hosts that share cores, one neighbour waited for, few messages"},
    SharedHostsRow{kAnyBytes, in_levels(Levels::shares, Algorithm::ring),
                   "hosts that share cores, one neighbour waited for"},
};

bool keeps_order(Algorithm algorithm, const Facts& facts) {
  return !facts.rank_order || reproducible(algorithm, facts.narrow);
}

bool fits(const Row& row, const Facts& facts) {
  const bool medium = row.medium == Medium::any || (row.medium == Medium::memory) == facts.memory;
  const bool cores = row.cores == Cores::any || (row.cores == Cores::shared) == facts.oversubscribed;
  const bool world = facts.world >= row.min_world && facts.world <= row.max_world;
  const bool shape = row.worlds == Worlds::any || std::has_single_bit(unsigned(facts.world));
  const bool bytes = facts.bytes <= row.max_bytes || facts.bytes / std::uint64_t(facts.world) <= row.max_chunk_bytes;
  return medium && cores && world && shape && bytes && keeps_order(row.algorithm, facts);
}

bool fits(const HostsRow& row, const Facts& facts) {
  return facts.hosts <= row.max_hosts && facts.bytes <= row.max_bytes && keeps_order(row.algorithm, facts);
}

bool fits(const TableRow& row, const Facts& facts) {
  return row.world == facts.world && row.hosts == facts.hosts && row.memory == facts.memory &&
         row.oversubscribed == facts.oversubscribed && facts.bytes <= row.max_bytes &&
         keeps_order(row.algorithm, facts);
}

bool fits(const SharedHostsRow& row, const Facts& facts) {
  return passes_round_hosts(facts) && facts.bytes / std::uint64_t(facts.hosts) <= row.max_bytes_of_host &&
         keeps_order(row.algorithm, facts);
}

Choice with_slab(const Facts& facts, Algorithm algorithm, std::string_view reason) {
  return {algorithm, slab_elems(facts, algorithm), reason};
}

// Returns the first matching row. If each host has one rank, a two-level algorithm is replaced by its algorithm between
// hosts.
template <class Rows>
std::optional<Choice> choose_from(const Rows& rows, const Facts& facts) {
  const auto row = std::ranges::find_if(rows, [&](const auto& each) { return fits(each, facts); });
  if (row == rows.end()) return std::nullopt;
  return with_slab(facts, hosts_have_several_ranks(facts) ? row->algorithm : between_hosts(row->algorithm),
                   row->reason);
}

// Returns the names for an error message, such as "'auto', one_shot or star".
std::string those_that_keep_order(bool narrow) {
  std::vector<std::string_view> names{"'auto'"};
  for (const Algorithm each : all_algorithms())
    if (reproducible(each, narrow)) names.push_back(name(each));
  std::string list(names[0]);
  for (std::size_t i = 1; i < names.size(); i++) list += text(i + 1 < names.size() ? ", " : " or ", names[i]);
  return list;
}

void refuse_if_unable(Algorithm forced, const Facts& facts) {
  if (keeps_order(forced, facts)) return;
  const bool adds = reproducible(forced);
  throw Error(ErrorCode::configuration,
              text("algorithm '", name(forced), "' cannot be forced in reproducible mode, it does not ",
                   adds ? "round 16-bit sums once" : "add in rank order", "; take ", those_that_keep_order(adds)));
}

// Slabs are pipelined: one is added up within hosts, while another is sent between hosts, and the results of a third
// within hosts. Each slab costs messages; but while the first slab is added up and the last one is sent to the ranks of
// its host, no data leaves the host. So the best size grows with the square root of the bytes. Ranks that share cores
// switch between them with each message, so they use large slabs.
std::uint64_t slab_of_two_levels(const Facts& facts) {
  constexpr std::uint64_t kMessages = 16 * kKiB;  // cost of a slab's messages, as bytes on a link
  if (facts.oversubscribed) return kMiB;
  std::uint64_t slab_bytes = kMessages;
  while (slab_bytes < kMaxSlabOfTwoLevels && slab_bytes < facts.bytes / slab_bytes * kMessages) slab_bytes *= 2;
  return slab_bytes;
}

// Two ranks in memory, 64 MiB: 6.4 ms in slabs of 256 KiB, 8.0 ms in slabs of 4 MiB, whose halves no longer fit into
// the second-level cache between being reduced and being read by the other rank. Over TCP 13 to 17 ms in slabs of 512
// KiB or 1 MiB, 21 to 23 ms in slabs of 4 MiB. Smaller slabs cause more wake-ups; on a link of 1 Gbit/s, where caching
// does not matter, they take 1.07 to 1.09 times the payload's time rather than 1.056.
std::uint64_t wanted_slab(const Facts& facts, bool two_levels) {
  if (facts.slab_bytes != kSuitableSlab) return std::uint64_t(facts.slab_bytes);
  if (two_levels) return slab_of_two_levels(facts);
  if (facts.hosts > 1) return 4 * kMiB;
  const auto world = std::uint64_t(facts.world);
  return facts.memory ? std::min(world * 128 * kKiB, kMiB) : std::min(world * 256 * kKiB, 4 * kMiB);
}

std::uint64_t min_slab(const Facts& facts, bool two_levels) {
  if (two_levels) return std::min(std::uint64_t(facts.hosts) * kMinSlabOfHost, kMaxSlabOfTwoLevels);
  return std::uint64_t(facts.world) * (facts.hosts > 1 ? kMinChunkBytesBetweenHosts : kMinChunkBytes);
}

std::uint64_t divide_up(std::uint64_t value, std::uint64_t by) {
  return value / by + (value % by != 0);
}

// Returns the number of elements of equal slabs of about `slab_bytes`; 0 if there is only one slab.
std::uint32_t in_slabs(const Facts& facts, std::uint64_t slab_bytes) {
  ANELLO_CHECK(facts.elem_bytes > 0);
  if (facts.slab_bytes == 0 || facts.world == 1 || facts.bytes <= slab_bytes) return 0;
  const std::uint64_t elems = divide_up(facts.bytes / facts.elem_bytes, divide_up(facts.bytes, slab_bytes));
  return std::uint32_t(std::min<std::uint64_t>(elems, UINT32_MAX));  // the range of the signature's field
}

// The smallest tensor for which the direct way pays. Measured on 2 cores, in place, in us: by the algorithm, direct.
//   allreduce, 2 ranks:  1 KiB 0.75, 0.76    2 KiB 0.98, 0.69    4 KiB 1.17, 0.78
//   allreduce, 4 ranks:  1 KiB 5.5, 4.9      2 KiB 6.8, 5.0      4 KiB 6.3, 5.1
//   allreduce, 8 ranks:  4 KiB 12.1, 14.4    8 KiB 18.4, 14.8
//   broadcast, 8 ranks:  64 KiB 28, 33       128 KiB 47, 33
//   broadcast, 2 ranks:  4 KiB 0.54, 0.72
// By the algorithm, ranks that share cores broadcast and reduce small tensors without waiting for each other.
std::uint64_t min_direct_bytes(Kind kind, const Facts& facts) {
  constexpr int kFew = 4;
  const bool one_way = kind == Kind::broadcast || kind == Kind::reduce;
  if (!one_way) return facts.world <= kFew ? 2 * kKiB : 8 * kKiB;
  if (facts.world == 2) return 8 * kKiB;
  return facts.world <= kFew ? 64 * kKiB : 128 * kKiB;
}

}  // namespace

bool passes_round_hosts(const Facts& facts) {
  constexpr int kMinHosts = 3, kMaxHosts = 16;
  return facts.hosts_share_cores && facts.hosts >= kMinHosts && facts.hosts <= kMaxHosts;
}

bool hosts_have_several_ranks(const Facts& facts) {
  return facts.hosts > 1 && facts.hosts < facts.world;
}

std::vector<Algorithm> algorithms_for(const Facts& facts) {
  std::vector<Algorithm> all(all_algorithms().begin(), all_algorithms().end());
  if (!hosts_have_several_ranks(facts)) return all;
  for (const Levels levels : all_levels())
    for (const Algorithm between : all_algorithms()) all.push_back(in_levels(levels, between));
  return all;
}

std::uint32_t slab_elems(const Facts& facts, Algorithm algorithm) {
  const bool two_levels = hosts_have_several_ranks(facts) && levels_of(algorithm) != Levels::one;
  return in_slabs(facts, std::max(wanted_slab(facts, two_levels), min_slab(facts, two_levels)));
}

// In a two-level reduce_scatter, each rank's piece of a slab must be worth a message, because pieces also travel within
// hosts. A reduce along the binomial tree has one slab.
std::uint32_t slab_elems(Kind kind, const Facts& facts, Algorithm algorithm) {
  constexpr std::uint64_t kMinPieceBytes = 32 * kKiB;
  const std::uint64_t wanted = wanted_slab(facts, false);
  switch (kind) {
    case Kind::allreduce:
      return slab_elems(facts, algorithm);
    case Kind::reduce_scatter:
      if (levels_of(algorithm) == Levels::one) return slab_elems(facts, algorithm);
      return in_slabs(facts, std::max(wanted, std::uint64_t(facts.world) * kMinPieceBytes));
    case Kind::reduce:
      return algorithm == Algorithm::tree ? 0 : in_slabs(facts, std::max(wanted, min_slab(facts, false)));
    default:
      return 0;
  }
}

// A direct collective needs a link between any two ranks.
bool may_be_direct(Kind kind, const Facts& facts) {
  constexpr int kMaxWorld = 8;
  return facts_of(kind).may_be_direct && facts.memory && facts.hosts == 1 && facts.world >= 2 &&
         facts.world <= kMaxWorld && facts.bytes >= min_direct_bytes(kind, facts) &&
         facts.forced == Algorithm::automatic;
}

std::uint64_t fingerprint_of_choices() {
  std::uint64_t all = 0;
  for (const Row& row : kRows)
    for (const std::uint64_t value : {std::uint64_t(row.medium), std::uint64_t(row.cores), std::uint64_t(row.min_world),
                                      std::uint64_t(row.max_world), std::uint64_t(row.worlds), row.max_bytes,
                                      row.max_chunk_bytes, std::uint64_t(row.algorithm)})
      all = fingerprint(all, value);
  for (const HostsRow& row : kHostsRows)
    for (const std::uint64_t value : {std::uint64_t(row.max_hosts), row.max_bytes, std::uint64_t(row.algorithm)})
      all = fingerprint(all, value);
  for (const SharedHostsRow& row : kSharedHostsRows)
    for (const std::uint64_t value : {row.max_bytes_of_host, std::uint64_t(row.algorithm)})
      all = fingerprint(all, value);
  for (const bool shares_cores : {false, true})
    for (const std::uint64_t bytes : {256 * kKiB, 2 * kMiB, 1000 * kMiB}) {
      const Facts facts{.world = 6, .oversubscribed = shares_cores, .hosts = 2, .bytes = bytes};
      all = fingerprint(all, choose(facts).slab_elems);
    }
  for (const int hosts : {1, 2})
    for (const bool memory : {false, true})
      for (const int world : {2, 4, 64})
        all = fingerprint(all, slab_elems({.world = world, .memory = memory, .hosts = hosts, .bytes = 1000 * kMiB}));
  for (const int world : {2, 4, 5, 8, 9})
    for (const std::uint64_t bytes : {2 * kKiB, 4 * kKiB, 8 * kKiB, 16 * kKiB, 64 * kKiB, 128 * kKiB, kMiB})
      for (const Kind kind : kAllKinds)
        all = fingerprint(all, std::uint64_t(may_be_direct(kind, {.world = world, .memory = true, .bytes = bytes})));
  return fingerprint_of_collective_choices(all);
}

Choice choose(const Facts& facts, std::span<const TableRow> table) {
  if (facts.world == 1) return {Algorithm::ring, 0, "one rank, a copy"};
  if (facts.forced != Algorithm::automatic) {
    refuse_if_unable(facts.forced, facts);
    return with_slab(facts, facts.forced, "forced");
  }
  const auto own = std::find_if(table.begin(), table.end(), [&](const TableRow& each) { return fits(each, facts); });
  if (own != table.end() && own->algorithm != Algorithm::automatic) {
    Facts with_slab = facts;
    if (facts.slab_bytes == kSuitableSlab) with_slab.slab_bytes = own->slab_bytes;
    return {own->algorithm, slab_elems(with_slab, own->algorithm), "the table's"};
  }
  if (const auto choice = choose_from(kSharedHostsRows, facts)) return *choice;
  if (hosts_have_several_ranks(facts))
    if (const auto choice = choose_from(kHostsRows, facts)) return *choice;
  const auto choice = choose_from(kRows, facts);
  ANELLO_CHECK(choice);
  return *choice;
}

}  // namespace anello::algorithms
