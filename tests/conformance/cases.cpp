#include "tests/conformance/cases.hpp"

#include <set>
#include <tuple>

#include "ring/base/element_types.hpp"
#include "ring/run/arithmetic.hpp"
#include "tests/support/random.hpp"

namespace anello::conformance {
namespace {

constexpr std::array kKinds{Kind::allreduce, Kind::reduce,  Kind::broadcast,      Kind::allgather,
                            Kind::gather,    Kind::scatter, Kind::reduce_scatter, Kind::alltoall};
constexpr std::array kOps{Op::sum, Op::average, Op::min, Op::max, Op::product, Op::bit_and, Op::bit_or, Op::bit_xor};
constexpr std::array kWays{Way::tcp, Way::tcp_in_pieces, Way::memory, Way::memory_in_pieces, Way::lent_memory};
// No element, one, fewer than ranks or only a few, an odd number, and more than links and slabs hold if they use small
// pieces.
constexpr std::array<std::uint64_t, 5> kCounts{0, 1, 7, 1001, 20'011};

class Product {
 public:
  std::vector<Case> all;

  void add(int world, Way way, Kind kind) {
    Case next{.exercise = {.kind = kind, .world = world}, .way = way};
    next.exercise.shareable = way == Way::lent_memory;
    for (const DType dtype : kElementTypes) {
      next.exercise.dtype = dtype;
      for (const Op op : kOps) {
        next.exercise.op = op;
        if (facts_of(kind).reduces ? can_reduce(dtype, op) : op == Op::sum) add_sizes(next);
      }
    }
  }

 private:
  void add_sizes(Case next) {
    for (const bool in_place : {false, true}) {
      next.exercise.in_place = in_place;
      if (in_place ? next.exercise.kind == Kind::alltoall : next.exercise.kind == Kind::broadcast) continue;
      for (const std::uint64_t count : kCounts) {
        next.exercise.count = count;
        add_roots(next);
      }
    }
  }

  void add_roots(Case next) {
    std::set<int> roots{0};
    if (facts_of(next.exercise.kind).root != Root::none)
      roots.insert({next.exercise.world / 2, next.exercise.world - 1});
    for (const int root : roots) {
      next.exercise.root = root;
      next.exercise.algorithm = Algorithm::automatic;
      add_drawn(next);
      if (next.exercise.kind != Kind::allreduce) continue;
      for (const Algorithm algorithm : all_algorithms()) {
        next.exercise.algorithm = algorithm;
        add_drawn(next);
      }
    }
  }

  void add_drawn(Case next) {
    Exercise& exercise = next.exercise;
    const bool wide = exercise.dtype == DType::f32 || exercise.dtype == DType::f64;
    const bool floats = wide || exercise.dtype == DType::f16 || exercise.dtype == DType::bf16;
    next.started = random_.percent(30);
    if (facts_of(exercise.kind).parts) exercise.uneven = random_.percent(40);
    if (wide && facts_of(exercise.kind).reduces && random_.percent(40))
      exercise.wire = random_.percent(50) ? DType::f16 : DType::bf16;
    const bool scales = exercise.op == Op::sum || exercise.op == Op::average;
    if (floats && scales && facts_of(exercise.kind).reduces && random_.percent(30)) {
      exercise.prescale = 2;
      exercise.postscale = random_.percent(50) ? 4 : 1;
    }
    all.push_back(next);
  }

  Random random_{1};
};

}  // namespace

std::array<std::uint64_t, Case::kDimensions> Case::values() const {
  return {std::uint64_t(exercise.kind),
          std::uint64_t(exercise.dtype),
          std::uint64_t(exercise.op),
          exercise.in_place,
          std::uint64_t(exercise.world),
          exercise.count,
          std::uint64_t(exercise.algorithm),
          std::uint64_t(way),
          std::uint64_t(exercise.root),
          std::uint64_t(exercise.wire.value_or(kAsTheyAre)),
          std::uint64_t(exercise.uneven) + 2 * std::uint64_t(exercise.prescale) * std::uint64_t(exercise.postscale),
          started};
}

std::vector<Case> product(const std::vector<int>& worlds) {
  Product product;
  for (const int world : worlds)
    for (const Way way : kWays)
      for (const Kind kind : kKinds) product.add(world, way, kind);
  return std::move(product.all);
}

// In a random order, since neighbours in the product are similar.
std::vector<Case> covering(const std::vector<Case>& all) {
  std::vector<Case> order = all, some;
  Random random(1);
  random.shuffle(order);
  std::set<std::tuple<std::size_t, std::uint64_t, std::size_t, std::uint64_t>> met;
  for (const Case& each : order) {
    const auto values = each.values();
    bool fresh = false;
    for (std::size_t a = 0; a < values.size(); a++)
      for (std::size_t b = 0; b < a; b++) fresh |= met.emplace(a, values[a], b, values[b]).second;
    if (fresh) some.push_back(each);
  }
  return some;
}

}  // namespace anello::conformance
