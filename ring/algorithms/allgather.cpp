// Allgather by the ring:
//   0 --a--> 1 --b--> 2 --c--> 0    each of three ranks sends its own part
//   0 --c--> 1 --a--> 2 --b--> 0    and passes on the part that it receives, while it arrives
// By the grid, with one round for each dimension. Four ranks, in a grid of two by two:
//   0 <-a|b-> 1       2 <-c|d-> 3        each sends its own part to the ranks of a line
//   0 <-ab|cd-> 2     1 <-ab|cd-> 3      then all parts that it has to the ranks of the other line
// In shares, if hosts have several ranks; two hosts with the ranks 0 1 and 2 3:
//   0 <-a|c-> 2    1 <-b|d-> 3          each part goes to one rank of every other host,
//   0 <-ac|bd-> 1  2 <-ac|bd-> 3        and from there to the others
#include <utility>
#include <vector>

#include "ring/algorithms/building_blocks.hpp"
#include "ring/algorithms/partners.hpp"

namespace anello::algorithms {
namespace {

class Allgather {
 public:
  Allgather(PlanBuilder& builder, const Shape& shape, const Parts& parts)
      : builder_(builder), parts_(parts), self_(shape.rank), shape_(shape) {}

  void round_the_ring() {
    const int n = shape_.world;
    const std::vector<int> ring = ring_of(shape_);
    builder_.among(ring, Space::input, [&] {
      const int place = builder_.rank();
      const auto owner = [&](int at) { return std::vector{ring[std::size_t((at + n) % n)]}; };
      for (int round = 0; round < n - 1; round++) {
        send((place + 1) % n, owner(place - round));
        receive((place + n - 1) % n, owner(place - round - 1));
      }
    });
  }

  void in_grid() { in_lines(Grid(shape_.world, Grid::kMaxLine), owners_in_grid); }

  void in_shares(Algorithm between) {
    const Partners partners(*shape_.hosts, self_);
    if (between == Algorithm::ring)
      round_hosts(partners);
    else
      straight_to_hosts(partners);
  }

 private:
  // Calls use(range, space) for every contiguous run of parts. The rank's own part is in the input; the other parts are
  // in the output.
  template <class Use>
  void each_run(const std::vector<int>& owners, Use use) const {
    Range run;
    int last = -1;
    for (const int owner : owners) {
      const Range part = parts_.of(owner);
      const bool goes_on = owner == last + 1 && last != self_ && owner != self_;
      if (run.count > 0 && !goes_on) use(std::exchange(run, {}), last == self_ ? Space::input : Space::output);
      run = run.count == 0 ? part : Range{run.begin, run.count + part.count};
      last = owner;
    }
    if (run.count > 0) use(run, last == self_ ? Space::input : Space::output);
  }
  void send(int peer, const std::vector<int>& owners) {
    each_run(owners, [&](Range run, Space from) { builder_.send(peer, run, from); });
  }
  void receive(int peer, const std::vector<int>& owners) {
    each_run(owners, [&](Range run, Space) { builder_.copy(peer, run); });
  }

  // owners(begin, end) must return the owners of the parts that the ranks at the grid places [begin, end) have.
  template <class Owners>
  void in_lines(const Grid& grid, Owners owners) {
    grid.each_line_back(builder_.rank(), [&](const Grid::Line& line) {
      builder_.among(line.ranks, Space::input, [&] {
        const int n = builder_.world(), rank = builder_.rank();
        const auto of = [&](int at) { return owners(line.begin(at), line.end(at)); };
        for (int k = 1; k < n; k++) send((rank + k) % n, of(rank));
        for (int k = 1; k < n; k++) receive((rank - k + n) % n, of((rank - k + n) % n));
      });
    });
  }

  // The parts of `host`'s ranks are at the partners of these ranks on this host. Sends them to the other ranks of this
  // host.
  void within_host(const Partners& partners, int host) {
    partners.within_host(builder_, host, [&](const Grid& grid, auto owners) { in_lines(grid, owners); });
  }

  void straight_to_hosts(const Partners& partners) {
    for (int k = 1; k < partners.hosts(); k++) send(partners.of(self_, partners.host_after(k)), {self_});
    for (int k = 0; k < partners.hosts(); k++) {
      const int host = partners.host_before(k);
      for (const int owner : partners.owners(host))
        if (k > 0) receive(owner, {owner});
      within_host(partners, host);
    }
  }

  void round_hosts(const Partners& partners) {
    const int next = partners.host_after(1), previous = partners.host_before(1);
    for (int k = 0; k < partners.hosts(); k++) {
      const int host = partners.host_before(k);
      for (const int owner : partners.owners(host)) {
        if (k > 0) receive(partners.of(owner, previous), {owner});
        if (k + 1 < partners.hosts()) send(partners.of(owner, next), {owner});
      }
      within_host(partners, host);
    }
  }

  PlanBuilder& builder_;
  const Parts& parts_;
  int self_;
  const Shape& shape_;
};

}  // namespace

Plan plan_allgather(const Shape& shape, Algorithm algorithm) {
  const Parts parts = parts_of(shape);
  const Range own = parts.of(shape.rank);
  PlanBuilder builder({.rank = shape.rank,
                       .world = shape.world,
                       .input_elems = own.count,
                       .output_elems = parts.whole(),
                       .input_base = own.begin});
  Allgather allgather(builder, shape, parts);
  if (shape.hosts && levels_of(algorithm) == Levels::shares)
    allgather.in_shares(between_hosts(algorithm));
  else if (between_hosts(algorithm) == Algorithm::grid)
    allgather.in_grid();
  else
    allgather.round_the_ring();
  copy_input(builder, own);
  return std::move(builder).finish();
}

}  // namespace anello::algorithms
