// From an operation to its signature, which all ranks must agree on, and its plan: the algorithm's steps for this rank.
// Keeps plans. If a call is like the one before, as most are, nothing is chosen or looked up.
// One thread at a time. Knows no link and touches no data.
#pragma once
#include <map>
#include <tuple>

#include "ring/algorithms/selection.hpp"
#include "ring/base/config.hpp"
#include "ring/group/operation.hpp"
#include "ring/run/arithmetic.hpp"

namespace anello::group {

// The facts with what the settings want. Throws Error{configuration} that names ANELLO_ALGORITHM.
algorithms::Facts with_settings(algorithms::Facts facts, const Settings& settings);

class Planner {
 public:
  // `facts` and `table` are equal on all ranks. The settings are added to the facts.
  Planner(int rank, std::uint32_t generation, const algorithms::Facts& facts, algorithms::Table table,
          const Settings& settings);

  struct Planned {
    Signature signature;  // without its sequence number
    const plan::Plan* plan = nullptr;
    run::Arithmetic arithmetic;
  };
  // The result is valid until the next call, its plan until the next tidy(). Throws Error{invalid_argument,
  // configuration}.
  const Planned& plan(const Operation& operation);

  // Forgets plans, if there are many.
  void tidy() {
    if (plans_.size() > kManyPlans) forget();
  }

 private:
  static constexpr std::size_t kManyPlans = 1024;
  using Key = std::tuple<Kind, Algorithm, algorithms::Shape, std::uint32_t>;

  // What the choice depends on.
  struct Asked {
    Signature signature;  // with the forced algorithm
    std::int64_t slab_bytes = algorithms::kSuitableSlab;

    friend bool operator==(const Asked&, const Asked&) = default;
  };
  Asked what_is_asked(const Operation& operation) const;
  Signature with_choice(const Asked& asked) const;
  const plan::Plan& plan_for(const Signature& signature);
  void forget();
  plan::Plan make_plan(const Signature& signature) const;

  int rank_, size_;
  std::uint32_t generation_;
  algorithms::Facts facts_;
  algorithms::Table table_;
  std::map<Key, plan::Plan, std::less<>> plans_;
  // Of the last call; without a plan if there was none, or it failed.
  Asked asked_;
  algorithms::Shape shape_;
  Planned planned_;
};

}  // namespace anello::group
