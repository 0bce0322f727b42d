#include "tests/conformance/cases.hpp"

#include <map>
#include <set>

#include "ring/base/element_types.hpp"
#include "ring/run/arithmetic.hpp"
#include "tests/support/kinds.hpp"
#include "tests/support/random.hpp"

namespace anello::conformance {
namespace {

const std::vector<Kind> kKinds = collectives_with_tensors();
constexpr std::array kOps{Op::sum, Op::average, Op::min, Op::max, Op::product, Op::bit_and, Op::bit_or, Op::bit_xor};
constexpr std::array kPostscales{1., 4., .5};
constexpr std::array kWays{Way::tcp, Way::tcp_in_pieces, Way::memory, Way::memory_in_pieces, Way::lent_memory};

// The counts are 0, 1, numbers near the number of ranks, an odd number, a number of elements above one block of a fold
// in a short message, and a number above what links and slabs in small pieces hold.
std::set<std::uint64_t> counts_for(int world) {
  const auto n = std::uint64_t(world);
  return {0, 1, n - 1, n, n + 1, 1001, 3001, 20'011};
}

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
      for (const std::uint64_t count : counts_for(next.exercise.world)) {
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
    if (floats && exercise.op != Op::product && facts_of(exercise.kind).reduces && random_.percent(30)) {
      exercise.prescale = 2;
      exercise.postscale = kPostscales[random_.below(kPostscales.size())];
    }
    all.push_back(next);
  }

  Random random_{1};
};

// Numbers the values of each dimension from 0 on.
class Numbers {
 public:
  std::array<std::size_t, Case::kDimensions> of(const Case& each) {
    const auto values = each.values();
    std::array<std::size_t, Case::kDimensions> numbers;
    for (std::size_t k = 0; k < values.size(); k++) {
      const auto [at, fresh] = numbers_[k].try_emplace(values[k], numbers_[k].size());
      numbers[k] = at->second;
    }
    return numbers;
  }

 private:
  std::array<std::map<std::uint64_t, std::size_t>, Case::kDimensions> numbers_;
};

// The sets that were added so far, each of `together` values of different dimensions.
class Met {
 public:
  explicit Met(std::size_t together) : together_(together), met_(power(Case::kDimensions * kMaxValues, together)) {}

  // Returns whether a set of these values is new.
  bool add(const std::array<std::size_t, Case::kDimensions>& numbers) {
    return add(numbers, numbers.size(), together_, 0);
  }

 private:
  static constexpr std::size_t kMaxValues = 32;  // of a dimension

  // Adds every set that extends the values in `chosen` by `more` values of dimensions before `end`. Returns whether one
  // of these sets is new.
  bool add(const std::array<std::size_t, Case::kDimensions>& numbers, std::size_t end, std::size_t more,
           std::size_t chosen) {
    if (more == 0) return is_new(chosen);
    bool fresh = false;
    for (std::size_t k = more - 1; k < end; k++)
      fresh |= add(numbers, k, more - 1, (chosen * Case::kDimensions + k) * kMaxValues + numbers[k]);
    return fresh;
  }

  bool is_new(std::size_t set) {
    const bool fresh = !met_[set];
    met_[set] = true;
    return fresh;
  }
  static std::size_t power(std::size_t base, std::size_t exponent) {
    return exponent == 0 ? 1 : base * power(base, exponent - 1);
  }

  std::size_t together_;
  std::vector<bool> met_;
};

}  // namespace

std::array<std::uint64_t, Case::kDimensions> Case::values() const {
  return {
      std::uint64_t(exercise.kind),
      std::uint64_t(exercise.dtype),
      std::uint64_t(exercise.op),
      exercise.in_place,
      std::uint64_t(exercise.world),
      exercise.count,
      std::uint64_t(exercise.algorithm),
      std::uint64_t(way),
      std::uint64_t(exercise.root),
      std::uint64_t(exercise.wire.value_or(kAsTheyAre)),
      std::uint64_t(exercise.uneven) + 2 * std::uint64_t(exercise.prescale) + 8 * std::uint64_t(2 * exercise.postscale),
      started};
}

std::vector<Case> product(const std::vector<int>& worlds) {
  Product product;
  for (const int world : worlds)
    for (const Way way : kWays)
      for (const Kind kind : kKinds) product.add(world, way, kind);
  return std::move(product.all);
}

// Adds cases in a random order, because neighbours in the product are similar.
std::vector<Case> covering(const std::vector<Case>& all, std::size_t together) {
  std::vector<Case> order = all, some;
  Random random(1);
  random.shuffle(order);
  Numbers numbers;
  Met met(together);
  for (const Case& each : order)
    if (met.add(numbers.of(each))) some.push_back(each);
  return some;
}

}  // namespace anello::conformance
