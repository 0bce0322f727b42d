// How a scheduler carries out the decisions of all ranks.
#include <algorithm>
#include <utility>

#include "ring/agenda/scheduler.hpp"
#include "ring/base/text.hpp"

namespace anello::agenda {

// While earlier operations move data, rank 0 decides no small allreduce, because this allreduce would only wait for the
// data. Meanwhile all ranks submit more small allreduces, and then all these allreduces are one list.
void Scheduler::carry_out_decisions() {
  const std::vector<Decision> decisions = agenda_.decide();
  for (std::size_t first = 0, end = 0; first < decisions.size(); first = end) {
    while (decisions[end++].with_next) continue;
    decided_ += end - first;
    carry_out(std::span(decisions).subspan(first, end - first));
  }
  if (!agenda_.has_held()) return;
  const bool moves_data = queue().when_idle([weak = weak_from_this()] {
    const auto scheduler = weak.lock();
    if (!scheduler) return;
    Scheduler& its = *scheduler;
    Access lock(its);
    its.or_end_world(lock, [&its]() ANELLO_UNCHECKED {  // clang cannot see that `lock` holds this mutex
      its.agenda_.decide_held();
      its.carry_out_decisions();
      its.say_more();
    });
  });
  if (moves_data) return;
  agenda_.decide_held();
  carry_out_decisions();
}

// Carries out one decision, or several whose operations are one list. If that fails, the world ends, for two reasons:
// the other ranks must not wait for ever, and they must not mistake this rank's next operation for the failed one.
void Scheduler::carry_out(std::span<const Decision> decisions) {
  if (failure_) return;  // all undecided operations have failed too
  std::vector<Handle> operations(decisions.size());
  for (std::size_t k = 0; k < decisions.size(); k++) {
    const bool is_join = !decisions[k].agreed && !decisions[k].refusal;
    const auto found = undecided_.find(is_join ? Agenda::kJoin : std::string_view(decisions[k].key));
    if (!decisions[k].mine || found == undecided_.end()) continue;
    operations[k] = std::move(found->second);
    undecided_.erase(found);
  }
  try {
    for (std::size_t k = 0; k < decisions.size(); k++) apply(decisions[k], operations[k]);
    if (operations.size() > 1)
      NamedOperation::start_list(operations, queue());
    else if (decisions[0].agreed)
      operations[0]->start(*decisions[0].agreed, queue(), self_);
  } catch (const std::exception& e) {
    cannot_go_on(decisions[0].key, e);
    const Error& failure = *failure_;
    for (const Handle& operation : operations)
      if (operation)
        operation->fail(group::or_out_of_memory(nullptr, world_rank(self_.rank), [&] { return Error(failure); }));
  }
  for (const Handle& operation : operations) {
    if (!operation) continue;
    started_ |= operation->moves_data();
    settle(*operation);
  }
}

// `operation` is null if this rank has not submitted the operation, because it has joined.
void Scheduler::apply(const Decision& decision, Handle& operation) {
  if (decision.refusal) {
    if (!operation) return;
    const int culprit = decision.refusal->culprit;
    operation->fail(
        {ErrorCode::mismatch, text(decision.key, ": ", decision.refusal->why), culprit < 0 ? -1 : world_rank(culprit)});
  } else if (decision.agreed) {
    if (!operation) {
      std::erase_if(parts_, [](const Handle& part) { return part->done(); });
      operation = parts_.emplace_back(std::make_shared<NamedOperation>(decision.agreed->description, decision.key));
    }
    operation->prepare(*decision.agreed, self_, carrier_.get());
  } else {
    operation->set_last(decision.last, std::exchange(parts_, {}));
  }
}

}  // namespace anello::agenda
