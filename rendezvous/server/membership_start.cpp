// The start of the next world: who is in it, and with which ranks.
#include <algorithm>
#include <tuple>
#include <utility>

#include "rendezvous/server/membership.hpp"
#include "ring/base/text.hpp"

namespace anello::rendezvous {
namespace {

// Returns a text such as "left: rank 3 (node-a, pid 7): it ended or lost its connection; joined: node-b pid 9".
std::string change_text(const std::vector<std::string>& left, const std::vector<ElasticProcess*>& chosen,
                        std::uint32_t newest_complete) {
  std::string went, came;
  for (const std::string& one : left) went += text(went.empty() ? "left: " : ", ", one);
  for (const ElasticProcess* process : chosen)
    if (!process->was_in_a_world() || process->since > newest_complete)
      came += text(came.empty() ? "joined: " : ", ", process->join.host, " pid ", process->join.pid);
  return text(went, went.empty() || came.empty() ? "" : "; ", came);
}

}  // namespace

int Membership::needed() const {
  if (course_.finished) return 1;
  return generation_ + 1 == course_.first_of_job ? limits_.first : limits_.min;
}

// Returns the processes that can form the next world: those of the last world, and then those in the lobby in the order
// of joining. Leaves out processes in the lobby that have not answered lately, because they may be stopped, and would
// delay the others.
std::vector<MemberId> Membership::candidates() const {
  std::vector<std::tuple<bool, std::uint64_t, MemberId>> order;
  for (const auto& [id, process] : processes_)
    if (process.state == State::waiting && (process.was_in_a_world() || !process.missed))
      order.emplace_back(!process.was_in_a_world(), process.seat, id);
  std::ranges::sort(order);
  std::vector<MemberId> chosen;
  for (const auto& [is_new, seat, id] : order)
    if (!is_new || chosen.size() < std::size_t(limits_.max)) chosen.push_back(id);
  return chosen;
}

Sends Membership::start_if_complete(Time now) {
  if (phase_ != Phase::gathering || !awaited().empty()) return {};
  const std::vector<MemberId> chosen = candidates();
  if (chosen.size() >= std::size_t(needed())) return start(chosen, now);
  if (!chosen.empty() && !deadlines_.enough)
    deadlines_.enough = now + (course_.begun ? limits_.patience : start_patience_);
  return {};
}

Sends Membership::start(const std::vector<MemberId>& chosen, Time now) {
  generation_++;
  phase_ = Phase::starting;
  deadlines_.enough.reset();
  deadlines_.start = now + start_patience_;
  deadlines_.inquiry = now + kInquiryInterval;
  std::vector<ElasticProcess*> processes;
  std::vector<const ElasticProcess*> all;
  for (const MemberId id : chosen) processes.push_back(&processes_.at(id));
  for (const auto& [id, process] : processes_) all.push_back(&process);
  const std::string change =
      generation_ == course_.first_of_job ? "" : change_text(course_.left, processes, course_.newest_complete);
  for (ElasticProcess* process : processes) {
    process->state = State::starting;
    if (!process->was_in_a_world()) process->since = generation_;
  }
  give_ranks(processes, all);
  std::vector<Assigned> assigned = places_of(processes, generation_);
  Sends sends;
  for (std::size_t i = 0; i < chosen.size(); i++) {
    assigned[i].incarnation = incarnation_;
    assigned[i].begun = course_.begun;
    assigned[i].change = change;
    sends.push_back({{chosen[i]}, std::move(assigned[i])});
  }
  return sends;
}

}  // namespace anello::rendezvous
