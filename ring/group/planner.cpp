#include "ring/group/planner.hpp"

#include <algorithm>
#include <anello/error.hpp>
#include <utility>

#include "ring/base/text.hpp"
#include "ring/run/message_execution.hpp"

namespace anello::group {
namespace {

std::uint64_t bytes_of(const plan::Plan& plan) {
  const auto bytes = [](const auto& list) { return list.capacity() * sizeof list[0]; };
  return sizeof plan + bytes(plan.steps) + bytes(plan.streams) + bytes(plan.sources) + bytes(plan.deps);
}

Algorithm algorithm_named(ErrorCode code, std::string_view what, std::string_view given) {
  Algorithm algorithm;
  if (!parse(given, algorithm))
    throw Error(code, text(what, " must be one of ", algorithm_names(), "; not '", given, "'"));
  return algorithm;
}

}  // namespace

algorithms::Facts with_settings(algorithms::Facts facts, const Settings& settings) {
  facts.slab_bytes = settings.slab_bytes;
  facts.rank_order = settings.reproducible != 0;
  facts.forced = algorithm_named(ErrorCode::configuration, "ANELLO_ALGORITHM", settings.algorithm);
  return facts;
}

Planner::Planner(int rank, std::uint32_t generation, const algorithms::Facts& facts, algorithms::Table table,
                 const Settings& settings, std::span<const int> hosts, std::uint64_t max_bytes)
    : rank_(rank),
      size_(facts.world),
      generation_(generation),
      facts_(with_settings(facts, settings)),
      table_(std::move(table)),
      max_bytes_(max_bytes) {
  if (hosts.empty()) return;
  shape_.hosts = &hosts_.emplace(hosts);
  facts_.uneven = hosts_->count() * hosts_->max_ranks() != size_;
}

const Planner::Planned& Planner::plan(const Call& call) {
  const Asked asked = what_is_asked(call);
  const bool same_parts =
      std::ranges::equal(call.counts, shape_.counts) && std::ranges::equal(call.received, shape_.received);
  if (!planned_.plan || !same_parts || asked != asked_) make_choice(call, asked);
  return planned_;
}

void Planner::make_choice(const Call& call, const Asked& asked) {
  planned_.plan = nullptr;  // if the rest throws, no old plan must remain
  asked_ = asked;
  shape_.rank = rank_;
  shape_.world = size_;
  shape_.count = call.count;
  shape_.root = std::max(call.root, 0);
  shape_.counts.assign(call.counts.begin(), call.counts.end());
  shape_.received.assign(call.received.begin(), call.received.end());
  planned_.signature = with_choice(asked);
  choose_shared_memory(asked);
  planned_.shows_tensors = asked.forced == Algorithm::automatic;
  planned_.arithmetic = run::arithmetic(call.dtype, call.op, call.wire.value_or(call.dtype));
  planned_.plan = &plan_for(planned_.signature);
  planned_.in_short_messages = run::MessageExecution::suits(*planned_.plan, planned_.arithmetic);
}

Planner::Asked Planner::what_is_asked(const Call& call) {
  Asked asked{.count = call.count,
              .slab_bytes = call.slab_bytes,
              .root = call.root,
              .kind = call.kind,
              .op = call.op,
              .dtype = call.dtype,
              .wire = call.wire == call.dtype ? kAsTheyAre : call.wire.value_or(kAsTheyAre),
              .rank_order = call.rank_order};
  if (!call.algorithm.empty()) asked.forced = algorithm_named(ErrorCode::invalid_argument, "algorithm", call.algorithm);
  return asked;
}

algorithms::Facts Planner::facts_for(const Asked& asked) const {
  algorithms::Facts facts = facts_;
  if (asked.forced != Algorithm::automatic) facts.forced = asked.forced;
  if (asked.slab_bytes != algorithms::kSuitableSlab) facts.slab_bytes = asked.slab_bytes;
  facts.rank_order |= asked.rank_order;
  facts.elem_bytes = size_bytes(asked.dtype);
  const bool has_parts = facts_of(asked.kind).parts;
  const bool counts_one = has_parts && shape_.counts.empty();  // then `count` is the size of one part
  facts.bytes = asked.count * facts.elem_bytes * std::uint64_t(counts_one ? size_ : 1);
  if (has_parts && !counts_one) facts.largest_part_bytes = std::ranges::max(shape_.counts) * facts.elem_bytes;
  facts.narrow = asked.wire != kAsTheyAre || asked.dtype == DType::f16 || asked.dtype == DType::bf16;
  return facts;
}

bool Planner::adds_in_rank_order(const Call& call) const {
  const algorithms::Facts facts = facts_for(what_is_asked(call));
  return reproducible(choose(call.kind, facts, table_).algorithm, facts.narrow);
}

// Depends only on values that are equal on all ranks whose signatures match. Ignores a forced algorithm, because
// another rank may have chosen the same algorithm without force.
void Planner::choose_shared_memory(Asked asked) {
  asked.forced = Algorithm::automatic;
  const bool may = asked.wire == kAsTheyAre;
  const algorithms::Facts facts = facts_for(asked);
  planned_.may_be_direct = may && algorithms::may_be_direct(asked.kind, facts);
  planned_.stage_slab = may ? algorithms::stage_slab(asked.kind, facts, table_) : 0;
}

Signature Planner::with_choice(const Asked& asked) const {
  const algorithms::Choice choice = choose(asked.kind, facts_for(asked), table_);
  return {.generation = generation_,
          .count = asked.count,
          .slab_elems = choice.slab_elems,
          .root = asked.root,
          .kind = asked.kind,
          .op = asked.op,
          .dtype = asked.dtype,
          .wire = asked.wire,
          .algorithm = choice.algorithm};
}

// An operation without elements moves no data, so a rank that wrongly calls the operation with elements would not be
// noticed. Therefore it becomes a barrier, with a barrier's algorithm. A transfer becomes a transfer of one byte
// instead, because its sender must not wait for its receiver.
plan::Plan Planner::make_plan(const Signature& signature) const {
  if (signature.count > 0 || !shape_.received.empty() || size_ == 1) return plan_of(signature, shape_);
  if (signature.kind != Kind::transfer) return plan_barrier(shape_, choose(Kind::barrier, facts_).algorithm);
  algorithms::Shape one = shape_;
  one.count = 1;
  return plan_of(signature, one);
}

const plan::Plan& Planner::plan_for(const Signature& signature) {
  const std::tuple<Kind, Algorithm, const algorithms::Shape&, std::uint32_t> key{signature.kind, signature.algorithm,
                                                                                 shape_, signature.slab_elems};
  if (const auto found = plans_.find(key); found != plans_.end()) return found->second;
  const plan::Plan& made = plans_.emplace(Key(key), make_plan(signature)).first->second;
  bytes_ += bytes_of(made);
  return made;
}

void Planner::forget(std::uint64_t next) {
  forgotten_.emplace_back();  // comes first: if this throws, operations still have their plans
  forgotten_.back() = {next, std::exchange(bytes_, 0), std::exchange(plans_, {})};
  planned_.plan = nullptr;
}

void Planner::free_unused(std::uint64_t oldest) {
  std::erase_if(forgotten_, [oldest](const Forgotten& each) { return each.next <= oldest; });
}

std::uint64_t Planner::bytes() const {
  std::uint64_t all = bytes_;
  for (const Forgotten& each : forgotten_) all += each.bytes;
  return all;
}

}  // namespace anello::group
