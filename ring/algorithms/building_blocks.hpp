// Sequences of steps that several collectives share. Pure.
#pragma once
#include <vector>

#include "ring/algorithms/plans.hpp"
#include "ring/plan/parts.hpp"
#include "ring/plan/plan_builder.hpp"

namespace anello::algorithms {

// Folds all contributions to `mine` in rank order into the output. The other ranks send their contributions from their
// inputs. If there are two ranks, uses one reduction, without scratch memory.
void gather_and_fold(PlanBuilder& builder, Range mine);
// Like gather_and_fold() above, but reads this rank's own contribution from `local` and writes the result to `to`.
void gather_and_fold(PlanBuilder& builder, Range mine, Operand local, Operand to);

// Rank r owns the part part(r). Each rank folds all contributions to its own part in rank order, from input to output.
template <class Part>
void fold_parts(PlanBuilder& builder, Part part) {
  const int n = builder.world(), rank = builder.rank();
  for (int k = 1; k < n; k++) builder.send((rank + k) % n, part((rank + k) % n), Space::input);
  gather_and_fold(builder, part(rank));
}
// Each rank sends its own part of the output to all other ranks.
template <class Part>
void send_parts(PlanBuilder& builder, Part part) {
  const int n = builder.world(), rank = builder.rank();
  for (int k = 1; k < n; k++) builder.send((rank + k) % n, part(rank), Space::output);
  for (int k = 1; k < n; k++) builder.copy((rank - k + n) % n, part((rank - k + n) % n));
}

// Does the work of fold_parts() and send_parts() in several rounds, one for each dimension of a grid of ranks. Parts
// must be contiguous in rank order. In each round of a fold, a rank exchanges data only with the ranks of its line, and
// only the data that it still has to reduce. So each round has less data than the previous round. send_parts() has the
// rounds in reverse order. max_line: the maximum length of a line; if the number of ranks has a larger prime factor,
// some lines have this prime factor as their length. turned: the dimensions are in reverse order.
class Grid {
 public:
  // Longer lines need fewer rounds, but more messages in each round. Between hosts, lines of more than 16 ranks lose
  // more time by the additional messages than they save by having fewer rounds.
  static constexpr int kMaxLine = 16;
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
    // [begin, end): the grid places whose parts the rank at place `at` of the line keeps after this round of a fold. On
    // the way back, the rank has these parts before this round.
    int begin(int at) const { return first + at * distance; }
    int end(int at) const { return begin(at) + distance; }
    template <class Part>
    Range block(int at, Part part) const {
      const std::uint64_t from = part(begin(at)).begin;
      return {from, part(end(at) - 1).end() - from};
    }
  };
  // Calls round(line) for each dimension, in the order of a fold, with the line that contains the rank.
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
    int ranks, distance;  // number of ranks in a line; distance between two neighbours in a line
  };
  static Line line_of(const Dimension& dimension, int rank);

  std::vector<Dimension> dimensions_;
};

// add_up_tree() and send_down_tree() use a tree in which a rank has `radix` - 1 children at each level. add_up_tree()
// writes the sum of all contributions to rank 0's output, and partial sums to other outputs. send_down_tree() sends
// rank 0's output to all other ranks.
void add_up_tree(PlanBuilder& builder, Range all, int radix = 2);
void send_down_tree(PlanBuilder& builder, Range all, int radix = 2);

// Copies the caller's input to the output. Adds no step if the call is in place.
void copy_input(PlanBuilder& builder, Range range);
// Makes the plan of a reduction in a world of one rank.
void reduce_alone(PlanBuilder& builder, Range range);

Parts parts_of(const Shape& shape);

// Returns the ranks in the order of a ring that passes through each host once.
std::vector<int> ring_of(const Shape& shape);

// Returns the ranks in the order of the tree: root, root + 1, ..., modulo the number of ranks. If hosts have several
// ranks, the ranks of each host stand together.
std::vector<int> places_of(const Shape& shape);

// `mates`: the ranks of this rank's host. `leaders`: one rank of each host: the root on the root's host, and on each
// other host its first rank, counted from the root. The first rank of each list sends to the other ranks of the list,
// or receives from them.
struct Leaders {
  std::vector<int> mates, leaders;
};
Leaders leaders_of(const Shape& shape);

}  // namespace anello::algorithms
