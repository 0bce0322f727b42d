// Reduce_scatter: the first half of the ring allreduce, shifted by one rank; in rank order all send directly to each
// owner.
//   0 --c--> 1 --a--> 2 --b--> 0            each of three ranks adds its own contribution, in scratch
//   0 --b2+0--> 1 --c0+1--> 2 --a1+2--> 0   the last rank to add is the owner
// In a grid and in two levels, reduce_scatter is the reverse of allgather (allgather.cpp): if a part goes from rank x
// to rank y in allgather, then the sum of contributions to this part goes from y to x here. A slab consists of the same
// range of every rank's part.
#include <algorithm>
#include <utility>
#include <vector>

#include "ring/algorithms/building_blocks.hpp"
#include "ring/algorithms/partners.hpp"
#include "ring/plan/slabs.hpp"

namespace anello::algorithms {
namespace {

// Writes the steps of one slab.
class ReduceScatter {
 public:
  ReduceScatter(PlanBuilder& builder, const Shape& shape, const Parts& parts, Range slab)
      : builder_(builder), shape_(shape), parts_(parts), slab_(slab) {
    for (int owner = 0; owner < shape.world; owner++) sums_.push_back(builder.at(Space::input, part(owner)));
  }

  void alone() { reduce_alone(builder_, part(0)); }

  void in_rank_order() {
    const int n = shape_.world, rank = shape_.rank;
    for (int k = 1; k < n; k++) builder_.send((rank + k) % n, part((rank + k) % n), Space::input);
    gather_and_fold(builder_, part(rank));
  }

  void round_the_ring() {
    const int n = shape_.world;
    const std::vector<int> ring = ring_of(shape_);
    builder_.among(ring, Space::input, [&] {
      const int place = builder_.rank();
      const auto owner = [&](int at) { return ring[std::size_t((at + n) % n)]; };
      for (int round = 1; round < n; round++) {
        send((place + 1) % n, {owner(place - round)});
        add((place + n - 1) % n, owner(place - round - 1));
      }
    });
  }

  void in_grid() { in_lines(Grid(shape_.world, Grid::kMaxLine), owners_in_grid); }

  void in_shares(Algorithm between) {
    const Partners partners(*shape_.hosts, shape_.rank);
    if (between == Algorithm::ring)
      round_hosts(partners);
    else
      straight_to_owners(partners);
  }

 private:
  Range part(int owner) const {
    const Range all = parts_.of(owner);
    const std::uint64_t begin = std::min(slab_.begin, all.count), end = std::min(slab_.end(), all.count);
    return {all.begin + begin, end - begin};
  }
  Operand& sum(int owner) { return sums_[std::size_t(owner)]; }
  // Returns where to write the sums of contributions to the parts of `owners`.
  Operand place_for(const std::vector<int>& owners, Range run) {
    return owners.size() == 1 && owners[0] == shape_.rank ? builder_.at(Space::output, run)
                                                          : builder_.scratch(run.count);
  }

  // Calls use(range, owners) for each run of contiguous parts whose sums are also contiguous.
  template <class Use>
  void each_run(const std::vector<int>& owners, Use use) {
    std::vector<int> some;
    Range run;
    for (const int owner : owners) {
      const Range next = part(owner);
      if (next.count == 0) continue;
      const bool goes_on = !some.empty() && run.end() == next.begin && sum(some[0]).space == sum(owner).space &&
                           sum(some[0]).at + run.count == sum(owner).at;
      if (!some.empty() && !goes_on) use(std::exchange(run, {}), std::exchange(some, {}));
      run = some.empty() ? next : Range{run.begin, run.count + next.count};
      some.push_back(owner);
    }
    if (!some.empty()) use(run, some);
  }
  void send(int peer, const std::vector<int>& owners) {
    each_run(owners, [&](Range run, const std::vector<int>& some) { builder_.send(peer, run, sum(some[0])); });
  }
  // Records that the sums for the parts of `owners` are now in `to`.
  void move_sums(const std::vector<int>& owners, Range run, Operand to) {
    for (const int owner : owners) sum(owner) = {to.space, to.at + part(owner).begin - run.begin};
  }
  void add(int peer, int owner) {
    const Range mine = part(owner);
    const Operand to = place_for({owner}, mine);
    builder_.reduce(peer, mine, to, std::exchange(sum(owner), to));
  }

  // owners(begin, end) must return the owners of the parts that the ranks at the grid places [begin, end) add up.
  template <class Owners>
  void in_lines(const Grid& grid, Owners owners) {
    grid.each_line(builder_.rank(), [&](const Grid::Line& line) {
      builder_.among(line.ranks, Space::input, [&] {
        const int n = builder_.world(), rank = builder_.rank();
        const auto of = [&](int at) { return owners(line.begin(at), line.end(at)); };
        for (int k = 1; k < n; k++) send((rank + k) % n, of((rank + k) % n));
        each_run(of(rank), [&](Range run, const std::vector<int>& some) {
          const Operand to = place_for(some, run);
          gather_and_fold(builder_, run, sum(some[0]), to);
          move_sums(some, run, to);
        });
      });
    });
  }

  // For each part of `host`'s ranks, adds up the contributions of this host's ranks. The owner's partner on this host
  // gets the sum.
  void within_host(const Partners& partners, int host) {
    partners.within_host(builder_, host, [&](const Grid& grid, auto owners) { in_lines(grid, owners); });
  }

  void straight_to_owners(const Partners& partners) {
    std::vector<int> all{shape_.rank};  // the ranks that add to this rank's part
    for (int k = 1; k <= partners.hosts(); k++) {
      const int host = partners.host_before(k);
      within_host(partners, host);
      for (const int owner : partners.owners(host))
        if (owner != shape_.rank) send(owner, {owner});
      if (k < partners.hosts()) all.push_back(partners.of(shape_.rank, host));
    }
    const Range own = part(shape_.rank);
    if (all.size() == 1) return;
    builder_.among(all, Space::input,
                   [&] { gather_and_fold(builder_, own, sum(shape_.rank), builder_.at(Space::output, own)); });
  }

  void round_hosts(const Partners& partners) {
    const int next = partners.host_after(1), previous = partners.host_before(1);
    for (int k = 1; k <= partners.hosts(); k++) {
      const int host = partners.host_before(k);
      within_host(partners, host);
      for (const int owner : partners.owners(host)) {
        if (k > 1) add(partners.of(owner, previous), owner);
        if (owner != shape_.rank) send(partners.of(owner, next), {owner});
      }
    }
  }

  PlanBuilder& builder_;
  const Shape& shape_;
  const Parts& parts_;
  const Range slab_;
  // By owner: where this rank's sum for the owner's part is; at first, its own contribution.
  std::vector<Operand> sums_;
};

}  // namespace

Plan plan_reduce_scatter(const Shape& shape, std::uint64_t slab_elems, Algorithm algorithm) {
  const int n = shape.world;
  const Parts parts = parts_of(shape);
  const Range own = parts.of(shape.rank);
  PlanBuilder builder({.rank = shape.rank,
                       .world = n,
                       .input_elems = parts.whole(),
                       .output_elems = own.count,
                       .output_base = own.begin});
  const std::uint64_t share = slab_elems == 0 || n == 1 ? 0 : std::max<std::uint64_t>(slab_elems / std::uint64_t(n), 1);
  each_slab(builder, parts.largest(), share, [&](Range slab) {
    ReduceScatter all(builder, shape, parts, slab);
    if (n == 1)
      all.alone();
    else if (algorithm == Algorithm::two_shot)
      all.in_rank_order();
    else if (shape.hosts && levels_of(algorithm) == Levels::shares)
      all.in_shares(between_hosts(algorithm));
    else if (between_hosts(algorithm) == Algorithm::grid)
      all.in_grid();
    else
      all.round_the_ring();
  });
  return std::move(builder).finish();
}

}  // namespace anello::algorithms
