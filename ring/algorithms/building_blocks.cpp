#include "ring/algorithms/building_blocks.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>
#include <vector>

namespace anello::algorithms {
namespace {

// Returns the largest divisor of `number` from 2 to `max`. If `number` has no such divisor, returns its smallest prime
// factor.
int divisor(int number, int max) {
  for (int divisor = max; divisor > 1; divisor--)
    if (number % divisor == 0) return divisor;
  int factor = max + 1;
  while (number % factor != 0) factor++;
  return factor;
}

}  // namespace

void gather_and_fold(PlanBuilder& builder, Range mine) {
  gather_and_fold(builder, mine, builder.at(Space::input, mine), builder.at(Space::output, mine));
}

void gather_and_fold(PlanBuilder& builder, Range mine, Operand local, Operand to) {
  const int n = builder.world(), rank = builder.rank();
  if (n == 2) {
    builder.reduce(1 - rank, mine, to, local);
    return;
  }
  std::vector<Operand> sources(std::size_t(n), local);
  for (int k = 1; k < n; k++) {
    const int peer = (rank - k + n) % n;
    sources[std::size_t(peer)] = builder.scratch(mine.count);
    builder.copy(peer, mine, sources[std::size_t(peer)]);
  }
  builder.fold(mine, to, sources);
}

Grid::Grid(int ranks, int max_line, bool turned) {
  std::vector<int> lines;
  for (int left = ranks; left > 1; left /= lines.back()) lines.push_back(divisor(left, max_line));
  if (turned) std::ranges::reverse(lines);
  for (const int line : lines) {
    ranks /= line;
    dimensions_.push_back({line, ranks});
  }
}

int Grid::longest_line(int ranks, int max_line) {
  int longest = 1;
  while (ranks > 1) {
    const int line = divisor(ranks, max_line);
    ranks /= line;
    longest = std::max(longest, line);
  }
  return longest;
}

Grid::Line Grid::line_of(const Dimension& dimension, int rank) {
  const int plane = dimension.ranks * dimension.distance;
  Line line{{}, rank / plane * plane, dimension.distance};
  for (int at = 0; at < dimension.ranks; at++)
    line.ranks.push_back(line.first + at * dimension.distance + rank % dimension.distance);
  return line;
}

void add_up_tree(PlanBuilder& builder, Range all, int radix) {
  const int n = builder.world(), rank = builder.rank();
  Space mine = Space::input;
  int distance = 1;
  for (; distance < n && rank % (distance * radix) == 0; distance *= radix)
    for (int child = rank + distance; child < std::min(n, rank + distance * radix); child += distance)
      builder.reduce(child, all, std::exchange(mine, Space::output));
  if (rank != 0) builder.send(rank - rank % (distance * radix), all, mine);
}

void send_down_tree(PlanBuilder& builder, Range all, int radix) {
  const int n = builder.world(), rank = builder.rank();
  int distance = 1;
  while (distance < n && rank % (distance * radix) == 0) distance *= radix;
  if (rank != 0) builder.copy(rank - rank % (distance * radix), all);
  for (distance /= radix; distance > 0; distance /= radix)
    for (int child = rank + distance; child < std::min(n, rank + distance * radix); child += distance)
      builder.send(child, all, Space::output);
}

void copy_input(PlanBuilder& builder, Range range) {
  builder.fold(range, std::array{builder.at(Space::input, range)});
}

void reduce_alone(PlanBuilder& builder, Range range) {
  copy_input(builder, range);
  builder.makes_result();
}

Parts parts_of(const Shape& shape) {
  return {shape.world, shape.count, shape.counts};
}

std::vector<int> ring_of(const Shape& shape) {
  std::vector<int> ranks(std::size_t(shape.world));
  std::iota(ranks.begin(), ranks.end(), 0);
  if (shape.hosts) std::ranges::copy(shape.hosts->all_ranks(), ranks.begin());
  return ranks;
}

std::vector<int> places_of(const Shape& shape) {
  std::vector<int> ranks = ring_of(shape);
  const auto root = std::ranges::find(ranks, shape.root);
  if (!shape.hosts) {
    std::rotate(ranks.begin(), root, ranks.end());
    return ranks;
  }
  const std::span<const int> mates = shape.hosts->mates(shape.root);
  const auto first = std::ranges::find(ranks, mates[0]);
  std::rotate(first, root, first + std::ptrdiff_t(mates.size()));
  std::rotate(ranks.begin(), first, ranks.end());
  return ranks;
}

Leaders leaders_of(const Shape& shape) {
  Leaders all;
  std::vector<bool> seen(std::size_t(shape.hosts->count()));
  for (const int rank : places_of(shape)) {
    const int host = shape.hosts->of(rank);
    if (host == shape.hosts->of(shape.rank)) all.mates.push_back(rank);
    if (!seen[std::size_t(host)]) all.leaders.push_back(rank);
    seen[std::size_t(host)] = true;
  }
  return all;
}

}  // namespace anello::algorithms
