// Makes an operation's signature, on which all ranks must agree, and its plan: the algorithm's steps for this rank.
// Keeps plans for later calls. Most calls are like the previous call; for these nothing is chosen or looked up. One
// thread at a time. Uses no link and no tensor data.
#pragma once
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "ring/algorithms/selection.hpp"
#include "ring/base/config.hpp"
#include "ring/group/call.hpp"
#include "ring/run/arithmetic.hpp"

namespace anello::group {

// Adds the settings to the facts. Throws Error{configuration} that names ANELLO_ALGORITHM if its value is not valid.
algorithms::Facts with_settings(algorithms::Facts facts, const Settings& settings);

class Planner {
 public:
  // `facts`, `table` and `hosts` must be equal on all ranks. `hosts`: the host of each rank, in the format of
  // algorithms::Hosts; empty if hosts do not matter. The settings are added to the facts. Kept plans take at most
  // `max_bytes`, plus the size of the last plan.
  Planner(const Planner&) = delete;  // deleted, because shape_ points into this object
  Planner(int rank, std::uint32_t generation, const algorithms::Facts& facts, algorithms::Table table,
          const Settings& settings, std::span<const int> hosts = {}, std::uint64_t max_bytes = 64 << 20);

  struct Planned {
    Signature signature;  // without the group, the sequence number and the values that have no effect on the plan
    const plan::Plan* plan = nullptr;
    run::Arithmetic arithmetic;
    bool in_short_messages = false;  // the plan suits run::MessageExecution
    bool may_be_direct = false;      // all ranks may show their tensors instead of using the plan; equal on all ranks
    std::uint32_t stage_slab = 0;    // as may_be_direct, but with stages: the bytes of a slab; 0: stages are not used
    bool shows_tensors = false;      // may_be_direct is true, and this rank's call forces no algorithm
  };
  // The result is valid until the next call; its plan is valid until tidy() frees it. Throws Error{invalid_argument,
  // configuration}.
  const Planned& plan(const Call& call);
  // True if an allreduce like this is carried out in rank order, so that Call::rank_order changes no bit of its result.
  bool adds_in_rank_order(const Call& call) const;

  // Forgets all plans if they take too much memory, and frees forgotten plans that no operation uses any more.
  // Operations are numbered and end in order. `oldest`: the first operation that is not done. `next`: the next
  // operation to be planned.
  void tidy(std::uint64_t oldest, std::uint64_t next) {
    if (bytes_ > max_bytes_) forget(next);
    if (!forgotten_.empty()) free_unused(oldest);
  }
  std::uint64_t bytes() const;  // size of all plans, including forgotten plans that are still in use

 private:
  using Key = std::tuple<Kind, Algorithm, algorithms::Shape, std::uint32_t>;
  using Plans = std::map<Key, plan::Plan, std::less<>>;
  struct Forgotten {
    std::uint64_t next = 0;  // the first operation that cannot use these plans
    std::uint64_t bytes = 0;
    Plans plans;
  };

  // The facts of a call on which the choice of a plan depends.
  struct Asked {
    std::uint64_t count = 0;
    std::int64_t slab_bytes = algorithms::kSuitableSlab;
    std::int32_t root = -1;
    Kind kind = Kind::barrier;
    Op op = Op::sum;
    DType dtype = DType::u8;
    DType wire = kAsTheyAre;
    Algorithm forced = Algorithm::automatic;
    bool rank_order = false;

    friend bool operator==(const Asked&, const Asked&) = default;
  };
  void make_choice(const Call& call, const Asked& asked);
  static Asked what_is_asked(const Call& call);
  algorithms::Facts facts_for(const Asked& asked) const;
  Signature with_choice(const Asked& asked) const;
  void choose_shared_memory(Asked asked);
  const plan::Plan& plan_for(const Signature& signature);
  void forget(std::uint64_t next);
  void free_unused(std::uint64_t oldest);
  plan::Plan make_plan(const Signature& signature) const;

  int rank_, size_;
  std::uint32_t generation_;
  algorithms::Facts facts_;
  algorithms::Table table_;
  std::optional<algorithms::Hosts> hosts_;
  Plans plans_;
  std::uint64_t max_bytes_, bytes_ = 0;  // `bytes_`: size of plans_
  std::vector<Forgotten> forgotten_;
  // Cache of the last call. `planned_.plan` is null before the first call and after a failure.
  Asked asked_;
  algorithms::Shape shape_;
  Planned planned_;
};

}  // namespace anello::group
