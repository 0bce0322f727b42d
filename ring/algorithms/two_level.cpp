// Allreduce in two levels, for hosts with several ranks: one level within hosts, and any algorithm between hosts. Each
// host sends as much as one rank in its place would send. Three hosts with the ranks 0 1 2, 3 4 and 5:
//   leaders:   1, 2 --> 0    4 --> 3    5           each host adds up at its first rank, along a tree
//              0, 3, 5 allreduce                    by the algorithm
//              0 --> 1, 2    3 --> 4    5           along the tree back
//   shares:    0, 1, 2 to each other; 3, 4 to each other: each adds up its shares of the buffer. There are as many
//              shares as the largest host has ranks. 0, 1, 2 own a, b, c; 3 owns a and b, 4 owns c; 5 owns all three.
//              a: 0, 3, 5 allreduce; b: 1, 3, 5; c: 2, 4, 5
//              each sends its shares of the result to the other ranks of its host
// The ranks of a host are arranged in a grid with lines of two if possible, which takes fewer messages.
#include "ring/algorithms/two_level.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "ring/algorithms/allreduce.hpp"
#include "ring/algorithms/building_blocks.hpp"

namespace anello::algorithms::allreduce {
namespace {

// Within a host, the latency of a message is about the CPU time that it costs sender and receiver.
constexpr int kRadix = 3, kMaxLine = 2;

// The division of a slab into shares. The ranks of a host own the shares in order; each rank owns a contiguous group of
// shares.
struct Shares {
  Range slab;
  int count;

  int owner(int share, int mates) const { return share * mates / count; }
  int first(int mate, int mates) const { return (mate * count + mates - 1) / mates; }
  Range of(int share) const { return chunk(slab, share, count); }
  Range all_of(int mate, int mates) const {
    const std::uint64_t begin = of(first(mate, mates)).begin;
    return {begin, of(first(mate + 1, mates) - 1).end() - begin};
  }
};

// Returns the grid of an algorithm with two halves: the first half adds up parts, the second half sends them. Empty for
// all other algorithms.
std::optional<Grid> halves(Algorithm algorithm, int ranks, bool turned = false) {
  if (algorithm == Algorithm::two_shot) return Grid(ranks, ranks);
  if (algorithm == Algorithm::grid) return Grid(ranks, Grid::kMaxLine, turned);
  return std::nullopt;
}

// True if the sums of all slabs are sent before any result. Most of the bytes between hosts are in the first round of a
// slab's sums. In the usual order, this round comes after the results of the previous slab, which need several rounds.
// With few slabs, nothing else leaves the host during these rounds. With many slabs, every second slab has its rounds
// in the opposite order, and so begins with other hosts.
//
// Simulated with 128 hosts of 8 ranks, in multiples of the lower bound. 4 MiB in 8 slabs: 1.18 with all slabs in the
// same order, 1.14 in two orders, 1.10 with sums first. 8 MiB in 16 slabs: 1.12, 1.10 and 1.17. 32 and 48 hosts agree.
// A grid of up to 16 hosts has only one round; the shipped tables never choose such a grid.
bool sums_first(Algorithm between, std::uint64_t slabs) {
  constexpr std::uint64_t kFewSlabs = 8;
  return between == Algorithm::grid && slabs <= kFewSlabs;
}

enum class Half { sums, rest };

// Writes the steps of one half of the algorithm between hosts. If the algorithm has no halves, Half::rest is the whole
// algorithm.
void emit(Half half, Algorithm algorithm, PlanBuilder& builder, Range range, bool turned) {
  const int n = builder.world();
  const std::optional<Grid> grid = halves(algorithm, n, turned);
  const auto part = [&](int rank) { return chunk(range, rank, n); };
  if (grid && half == Half::sums) grid->fold(builder, part);
  if (grid && half == Half::rest) grid->send(builder, part);
  if (!grid && half == Half::rest) allreduce::emit(algorithm, builder, range);
}

// Writes one rank's steps of one slab.
class TwoLevels {
 public:
  TwoLevels(Algorithm algorithm, PlanBuilder& builder, Range slab, const Hosts& hosts, bool sums_first)
      : levels_(levels_of(algorithm)),
        between_(between_hosts(algorithm)),
        builder_(builder),
        hosts_(hosts),
        turned_(levels_ == Levels::shares && builder.slab() % 2 != 0),
        turned_between_(builder.slab() % 2 != 0 && !sums_first),
        mates_(in_turn(hosts.mates(builder.rank()))),
        shares_{slab, levels_ == Levels::leaders ? 1 : hosts.max_ranks()} {}

  void add_within_hosts() {
    builder_.among(mates_, Space::input, [&] {
      if (levels_ == Levels::leaders)
        add_up_tree(builder_, shares_.slab, kRadix);
      else
        grid_.fold(builder_, [this](int mate) { return part(mate); });
    });
  }

  void send_within_hosts() {
    builder_.among(mates_, Space::output, [&] {
      if (levels_ == Levels::leaders)
        send_down_tree(builder_, shares_.slab, kRadix);
      else
        grid_.send(builder_, [this](int mate) { return part(mate); });
    });
    // A rank that is alone on its host sends no results within the host. It rounds its result as other ranks do before
    // they send, so that all ranks have the same bits.
    if (mates_.size() == 1 && hosts_.max_ranks() > 1) builder_.round(shares_.slab);
  }

  // For each share whose host sum is at this rank: reduces that sum with the sums of the same share at its owners on
  // the other hosts. With `leaders` there is only one share.
  void reduce_between_hosts(Half half) {
    const bool in_input = mates_.size() == 1 && (half == Half::sums || !halves(between_, hosts_.count()));
    for (int share = 0; share < shares_.count && hosts_.count() > 1; share++) {
      if (owner(share, hosts_.mates(builder_.rank())) != builder_.rank() || shares_.of(share).count == 0) continue;
      builder_.among(owners(share), in_input ? Space::input : Space::output,
                     [&] { emit(half, between_, builder_, shares_.of(share), turned_between_); });
    }
  }

 private:
  // Returns the rank at this place of a host. In every second slab the places have a different order, so that ranks
  // that exchange last in one slab exchange first in the next. Messages between two ranks keep their order, so these
  // ranks finish the earlier slab first, and two slabs do not share a link.
  int rank_at(int place, std::span<const int> ranks) const {
    const int n = int(ranks.size()), lines = n / kMaxLine;
    if (turned_ && n % kMaxLine == 0) place = place % lines * kMaxLine + place / lines;
    return ranks[std::size_t(place)];
  }
  std::vector<int> in_turn(std::span<const int> ranks) const {
    std::vector<int> all;
    for (int place = 0; place < int(ranks.size()); place++) all.push_back(rank_at(place, ranks));
    return all;
  }
  int owner(int share, std::span<const int> ranks) const {
    return rank_at(shares_.owner(share, int(ranks.size())), ranks);
  }
  // Returns the share's owners in ascending order, so that all owners add in the same order.
  std::vector<int> owners(int share) const {
    std::vector<int> all;
    for (int host = 0; host < hosts_.count(); host++) all.push_back(owner(share, hosts_.ranks(host)));
    std::ranges::sort(all);
    return all;
  }
  Range part(int mate) const { return shares_.all_of(mate, int(mates_.size())); }

  const Levels levels_;
  const Algorithm between_;
  PlanBuilder& builder_;
  const Hosts& hosts_;
  const bool turned_, turned_between_;  // true if places within hosts, or rounds between hosts, are in the other order
  const std::vector<int> mates_;
  const Shares shares_;
  const Grid grid_{int(mates_.size()), kMaxLine};
};

}  // namespace

// Writes the steps in three phases: adding up within each host; adding up between hosts, if the algorithm between hosts
// has a separate half for it; and the rest.
void in_two_levels(Algorithm algorithm, PlanBuilder& builder, std::uint64_t count, std::uint64_t slab_elems,
                   const Hosts& hosts) {
  const std::uint64_t slabs = slabs_of(count, slab_elems);
  const bool first = sums_first(between_hosts(algorithm), slabs);
  const auto levels = [&](Range slab) { return TwoLevels(algorithm, builder, slab, hosts, first); };
  each_slab(
      builder, count, slab_elems, [&](Range slab) { levels(slab).add_within_hosts(); },
      [&](Range slab) { levels(slab).reduce_between_hosts(Half::sums); },
      [&](Range slab) {
        TwoLevels each = levels(slab);
        each.reduce_between_hosts(Half::rest);
        each.send_within_hosts();
      },
      first ? slabs : 1);
}

}  // namespace anello::algorithms::allreduce
