// What several collectives are made of. Pure.
#pragma once
#include <vector>

#include "ring/algorithms/plans.hpp"
#include "ring/plan/parts.hpp"
#include "ring/plan/plan_builder.hpp"

namespace anello::algorithms {

// Receives `mine` from every other rank, which sends it from its input, and folds all in rank order into the output.
// Two ranks need no scratch: one reduction does it.
void gather_and_fold(PlanBuilder& builder, Range mine);
// The same with this rank's own contribution from `local`, and the result in `to`.
void gather_and_fold(PlanBuilder& builder, Range mine, Operand local, Operand to);

// Each rank has a part of its own: part(rank). It folds all contributions to it in rank order, from input to output.
template <class Part>
void fold_parts(PlanBuilder& builder, Part part) {
  const int n = builder.world(), rank = builder.rank();
  for (int k = 1; k < n; k++) builder.send((rank + k) % n, part((rank + k) % n), Space::input);
  gather_and_fold(builder, part(rank));
}
// And back: each rank sends its part of the output to all others.
template <class Part>
void send_parts(PlanBuilder& builder, Part part) {
  const int n = builder.world(), rank = builder.rank();
  for (int k = 1; k < n; k++) builder.send((rank + k) % n, part(rank), Space::output);
  for (int k = 1; k < n; k++) builder.copy((rank - k + n) % n, part((rank - k + n) % n));
}

// The same in several rounds, one along each dimension of a grid of ranks; the parts follow each other. In a round a
// rank exchanges with the ranks of its line alone, what it has by then: first the most. max_line: of the ranks of a
// line, unless their number has a larger prime factor. turned: the dimensions in reverse.
class Grid {
 public:
  static constexpr int kMaxLine = 16;  // between hosts more messages take longer than one more round
  Grid(int ranks, int max_line, bool turned = false);
  static int longest_line(int ranks, int max_line);  // allocates nothing

  template <class Part>
  void fold(PlanBuilder& builder, Part part) const {
    Space mine = Space::input;
    each_line(builder.rank(), [&](const Line& line) {
      builder.among(line.ranks, mine, [&] { fold_parts(builder, [&](int at) { return line.block(at, part); }); });
      mine = Space::output;
    });
  }
  template <class Part>
  void send(PlanBuilder& builder, Part part) const {
    each_line_back(builder.rank(), [&](const Line& line) {
      builder.among(line.ranks, Space::output,
                    [&] { send_parts(builder, [&](int at) { return line.block(at, part); }); });
    });
  }

  struct Line {
    std::vector<int> ranks;
    int first, distance;
    // Of the places in the grid, [begin, end) are those whose parts the rank at this place of the line keeps in this
    // round of a fold, and has before this round on the way back.
    int begin(int at) const { return first + at * distance; }
    int end(int at) const { return begin(at) + distance; }
    template <class Part>
    Range block(int at, Part part) const {
      const std::uint64_t from = part(begin(at)).begin;
      return {from, part(end(at) - 1).end() - from};
    }
  };
  // Calls round(line) with the rank's line in each dimension, in the order of a fold, or back.
  template <class Round>
  void each_line(int rank, Round round) const {
    for (const Dimension& each : dimensions_) round(line_of(each, rank));
  }
  template <class Round>
  void each_line_back(int rank, Round round) const {
    for (auto each = dimensions_.rbegin(); each != dimensions_.rend(); ++each) round(line_of(*each, rank));
  }

 private:
  struct Dimension {
    int ranks, distance;  // of a line, and between two neighbours in it
  };
  static Line line_of(const Dimension& dimension, int rank);

  std::vector<Dimension> dimensions_;
};

// Along a tree in which a rank has `radix`-1 children at each level: the sum of all contributions to rank 0's output,
// with sums of some of them in other outputs; and rank 0's output to all others.
void add_up_tree(PlanBuilder& builder, Range all, int radix = 2);
void send_down_tree(PlanBuilder& builder, Range all, int radix = 2);

// The caller's input to the output, which is no work in place.
void copy_input(PlanBuilder& builder, Range range);
// A reduction over one rank.
void reduce_alone(PlanBuilder& builder, Range range);

Parts parts_of(const Shape& shape);

// The ranks in a ring that enters and leaves each host once.
std::vector<int> ring_of(const Shape& shape);

// The ranks counted from the root, which has place 0; host by host, of hosts with several ranks.
std::vector<int> places_of(const Shape& shape);

// The first of the ranks counted from the root on this rank's host, and so on each other one: the root's is the root.
// Both lists begin with the one that sends to the others, or receives from them.
struct Leaders {
  std::vector<int> mates, leaders;
};
Leaders leaders_of(const Shape& shape);

}  // namespace anello::algorithms
