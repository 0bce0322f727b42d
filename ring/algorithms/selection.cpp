#include "ring/algorithms/selection.hpp"

#include <algorithm>
#include <anello/error.hpp>

#include "ring/algorithms/selection_table.hpp"
#include "ring/base/check.hpp"
#include "ring/base/text.hpp"

namespace anello::algorithms {
namespace {

// The smallest chunk of one rank that is worth a message. It also limits the number of steps of a plan.
constexpr std::uint64_t kMinChunkBytes = 16 * kKiB, kMinChunkBytesBetweenHosts = 256 * kKiB;
// In two levels, the number of messages between hosts grows with the number of hosts. So the minimum size of a slab is
// kMinSlabOfHost for each host, but at most kMaxSlabOfTwoLevels.
constexpr std::uint64_t kMinSlabOfHost = 12 * kKiB, kMaxSlabOfTwoLevels = 512 * kKiB;

bool fits(const TableRow& row, const Facts& facts) {
  return row.world == facts.world && row.hosts == facts.hosts && row.memory == facts.memory &&
         row.oversubscribed == facts.oversubscribed && facts.bytes <= row.max_bytes &&
         keeps_order(row.algorithm, facts);
}

// Returns the row of the user's table that names the algorithm; null if no row names one.
const TableRow* algorithm_of(std::span<const TableRow> table, const Facts& facts) {
  const auto own = std::find_if(table.begin(), table.end(), [&](const TableRow& each) { return fits(each, facts); });
  return own == table.end() || own->algorithm == Algorithm::automatic ? nullptr : &*own;
}

// Takes the first rule that fits. If each host has one rank, a two-level algorithm is replaced by its algorithm between
// hosts.
Choice choose_by_rules(Kind kind, const Facts& facts) {
  const auto rule = std::ranges::find_if(rules(), [&](const Rule& each) { return fits(each, kind, facts); });
  ANELLO_CHECK(rule != rules().end());
  const Algorithm algorithm = hosts_have_several_ranks(facts) ? rule->algorithm : between_hosts(rule->algorithm);
  return {algorithm, slab_elems(kind, facts, algorithm), rule->reason, rule->measured};
}

// Returns the names of the algorithms that keep the order, for an error message: "'auto', one_shot or star".
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
              text("algorithm '", name(forced), "' cannot be forced in reproducible mode: it does not ",
                   adds ? "round 16-bit sums once" : "add in rank order", "; take ", those_that_keep_order(adds)));
}

// Slabs are pipelined: while one slab is added up within hosts, another slab is sent between hosts, and the results of
// a third slab are sent within hosts. Each slab costs messages, which is a reason for large slabs. But no data leaves
// the host while the first slab is added up and while the last slab is sent within the host, which is a reason for
// small slabs. So the best slab size grows with the square root of the bytes. If ranks share cores, each message causes
// a switch between ranks, so such ranks use large slabs.
std::uint64_t slab_of_two_levels(const Facts& facts) {
  constexpr std::uint64_t kMessages = 16 * kKiB;  // cost of a slab's messages, expressed as bytes on a link
  if (facts.oversubscribed) return kMiB;
  std::uint64_t slab_bytes = kMessages;
  while (slab_bytes < kMaxSlabOfTwoLevels && slab_bytes < facts.bytes / slab_bytes * kMessages) slab_bytes *= 2;
  return slab_bytes;
}

// Two ranks in memory, 64 MiB: 6.4 ms in slabs of 256 KiB, but 8.0 ms in slabs of 4 MiB, because half of such a slab
// does not stay in the second-level cache until the other rank reads it. Over TCP: 13 to 17 ms in slabs of 512 KiB or 1
// MiB, 21 to 23 ms in slabs of 4 MiB. Smaller slabs cause more wake-ups. This shows on a link of 1 Gbit/s, where
// caching does not matter: small slabs take 1.07 to 1.09 times the time of the payload alone, larger ones 1.056 times.
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

// Returns the number of elements of a slab if the buffer is divided into equal slabs of about `slab_bytes`; 0 if there
// is only one slab.
std::uint32_t in_slabs(const Facts& facts, std::uint64_t slab_bytes) {
  ANELLO_CHECK(facts.elem_bytes > 0);
  if (facts.slab_bytes == 0 || facts.world == 1 || facts.bytes <= slab_bytes) return 0;
  const std::uint64_t elems = divide_up(facts.bytes / facts.elem_bytes, divide_up(facts.bytes, slab_bytes));
  return std::uint32_t(std::min<std::uint64_t>(elems, UINT32_MAX));  // limited to the maximum of the signature's field
}

// The minimum tensor size for which the direct way is faster than the algorithm. Figures are for in-place calls, in us:
// first the time of the algorithm, then the time of the direct way. Measured on 2 cores: allreduce on an Intel Xeon
// (family 6, model 167), broadcast on an AMD EPYC.
//   allreduce, 2 ranks:  1 KiB 0.75, 0.76    2 KiB 0.98, 0.69    4 KiB 1.17, 0.78
//   allreduce, 4 ranks:  1 KiB 5.5, 4.9      2 KiB 6.8, 5.0      4 KiB 6.3, 5.1
//   allreduce, 8 ranks:  4 KiB 12.1, 14.4    8 KiB 18.4, 14.8
//   broadcast, 8 ranks:  64 KiB 28, 33       128 KiB 47, 33
//   broadcast, 2 ranks:  4 KiB 0.54, 0.72
// With the algorithm, ranks that share cores can broadcast and reduce small tensors without waiting for each other.
std::uint64_t min_direct_bytes(Kind kind, const Facts& facts) {
  constexpr int kFew = 4;
  const bool one_way = kind == Kind::broadcast || kind == Kind::reduce;
  if (!one_way) return facts.world <= kFew ? 2 * kKiB : 8 * kKiB;
  if (facts.world == 2) return 8 * kKiB;
  return facts.world <= kFew ? 64 * kKiB : 128 * kKiB;
}

// A barrier is an allreduce of one byte whose value does not matter, so the settings for allreduce do not apply.
Facts of_barrier(Facts facts) {
  facts.bytes = facts.elem_bytes = 1;
  facts.slab_bytes = kSuitableSlab;
  facts.rank_order = facts.narrow = false;
  facts.forced = Algorithm::automatic;
  return facts;
}

bool has_rules(Kind kind) {
  return std::ranges::any_of(rules(), [&](const Rule& each) { return is_for(each, kind); });
}

std::uint64_t of_samples(std::uint64_t before) {
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

// In a two-level reduce_scatter, pieces of a slab also travel within hosts, so each rank's piece must be large enough
// for a message. A reduce along the binomial tree has one slab.
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

// Stages need less copying than algorithms, but every rank must get a core twice for each slab. Mean times of in-place
// calls in us, with bound ranks on 2 cores of an Intel Xeon (family 6, model 207): first by the algorithm, then through
// stages.
//   3 ranks:   64 KiB 20.9, 20.2    256 KiB  75,  67    1 MiB 343, 301    4 MiB 1384, 1242    16 MiB  6.7,  5.3 ms
//   4 ranks:   16 KiB 13.7, 12.1     64 KiB  26,  22    1 MiB 359, 332    4 MiB 1470, 1341    16 MiB  7.5,  6.5 ms
//   8 ranks:   16 KiB 29.5, 24.1     64 KiB  64,  51    1 MiB 946, 814    4 MiB 3781, 3274    16 MiB 23.7, 16.1 ms
// 3 ranks with 32 KiB: 14.8, 19.1; with 64 KiB on an AMD EPYC (family 25, model 17): 20.4, 19.3. In slabs of 128 KiB,
// then of 512 KiB: 8 ranks with 16 MiB take 20.2, 16.1 ms; 3 ranks with 4 MiB take 1242, 1539 us, because smaller slabs
// stay in the cache.
std::uint32_t stage_slab(Kind kind, const Facts& facts, std::span<const TableRow> table) {
  constexpr int kFew = 4;
  const std::uint64_t min_bytes = facts.world == 3 ? 64 * kKiB : 16 * kKiB;
  const bool is_faster =
      kind == Kind::allreduce && facts.world >= 3 && facts.oversubscribed && facts.bytes >= min_bytes;
  if (!is_faster || !may_be_direct(kind, facts) || algorithm_of(table, facts)) return 0;
  return std::uint32_t(facts.world <= kFew ? 128 * kKiB : 512 * kKiB);
}

Choice choose(const Facts& facts, std::span<const TableRow> table) {
  if (facts.world == 1) return {Algorithm::ring, 0, "one rank, a copy"};
  if (facts.forced != Algorithm::automatic) {
    refuse_if_unable(facts.forced, facts);
    return {facts.forced, slab_elems(facts, facts.forced), "forced"};
  }
  const TableRow* const own = algorithm_of(table, facts);
  if (!own) return choose_by_rules(Kind::allreduce, facts);
  Facts with_slab = facts;
  if (facts.slab_bytes == kSuitableSlab) with_slab.slab_bytes = own->slab_bytes;
  return {own->algorithm, slab_elems(with_slab, own->algorithm), "the table's"};
}

Choice choose(Kind kind, const Facts& facts, std::span<const TableRow> table) {
  if (kind == Kind::allreduce) return choose(facts, table);
  if (kind == Kind::barrier) return choose(of_barrier(facts), {});
  if (!has_rules(kind)) return {Algorithm::automatic, 0, "it has only one algorithm"};
  return choose_by_rules(kind, facts);
}

std::vector<Algorithm> algorithms_for(Kind kind, const Facts& facts) {
  if (kind == Kind::allreduce) return algorithms_for(facts);
  if (kind == Kind::barrier) return algorithms_for(of_barrier(facts));
  if (!has_rules(kind)) return {Algorithm::automatic};
  std::vector<Algorithm> all;
  for (const Rule& rule : rules())
    if (may_use(rule, kind, facts) && std::ranges::find(all, rule.algorithm) == all.end())
      all.push_back(rule.algorithm);
  return all;
}

std::uint64_t fingerprint_of_choices() {
  std::uint64_t all = fingerprint_of_rules();
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
  for (const int world : {2, 3, 4, 8})
    for (const std::uint64_t bytes : {8 * kKiB, 16 * kKiB, 64 * kKiB, 128 * kKiB}) {
      const Facts facts{.world = world, .oversubscribed = true, .memory = true, .bytes = bytes};
      all = fingerprint(all, stage_slab(Kind::allreduce, facts));
    }
  return of_samples(all);
}

}  // namespace anello::algorithms
