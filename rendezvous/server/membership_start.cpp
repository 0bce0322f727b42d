// The start of the next world: who is in it, and with which ranks.
#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "rendezvous/protocol/describe.hpp"
#include "rendezvous/server/assign.hpp"
#include "rendezvous/server/membership.hpp"
#include "ring/base/text.hpp"

namespace anello::rendezvous {
namespace {

using Host = std::pair<std::string, std::string>;

Host host_of(const Join& join) {
  return {join.host, join.machine};
}

}  // namespace

int Membership::needed() const {
  if (finished_) return 1;
  return generation_ + 1 == first_of_job_ ? limits_.first : limits_.min;
}

// Processes that can form the next world: those of the last one, and then those of the lobby in the order of joining.
std::vector<MemberId> Membership::candidates() const {
  std::vector<std::tuple<bool, std::uint64_t, MemberId>> order;
  for (const auto& [id, process] : processes_)
    if (process.state == State::waiting) order.emplace_back(!was_in_a_world(process), process.seat, id);
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
  if (!chosen.empty() && !wait_until_) wait_until_ = now + (begun_ ? limits_.patience : start_patience_);
  return {};
}

Sends Membership::start(const std::vector<MemberId>& chosen, Time now) {
  generation_++;
  phase_ = Phase::starting;
  wait_until_.reset();
  start_until_ = now + start_patience_;
  next_inquiry_ = now + kInquiryInterval;
  const std::string news = change(chosen);
  left_.clear();
  for (const MemberId id : chosen) {
    Process& process = processes_.at(id);
    process.state = State::starting;
    process.answered = now;
    if (!was_in_a_world(process)) process.since = generation_;
  }
  give_ranks(chosen);
  std::vector<Assigned> assigned = places(chosen);
  Sends sends;
  for (std::size_t i = 0; i < chosen.size(); i++) {
    assigned[i].incarnation = incarnation_;
    assigned[i].begun = begun_;
    assigned[i].change = news;
    sends.push_back({{chosen[i]}, std::move(assigned[i])});
  }
  return sends;
}

// Ranks follow seniority: hosts by their oldest process, and processes within a host. So a world keeps the order of its
// survivors, and the ranks of a host are contiguous. A process keeps its local rank, which decides which GPU it uses.
void Membership::give_ranks(const std::vector<MemberId>& chosen) {
  using Age = std::pair<std::uint32_t, std::uint64_t>;
  const auto age_of = [](const Process& process) { return Age{process.since, process.seat}; };
  std::map<Host, Age> oldest;
  std::map<Host, std::set<int>> taken;  // local ranks, also of processes that wait
  for (const MemberId id : chosen) {
    const Process& process = processes_.at(id);
    const auto [at, is_first] = oldest.emplace(host_of(process.join), age_of(process));
    if (!is_first) at->second = std::min(at->second, age_of(process));
  }
  for (const auto& [id, process] : processes_)
    if (process.local_rank >= 0) taken[host_of(process.join)].insert(process.local_rank);
  std::vector<std::tuple<Age, Age, Process*>> order;
  for (const MemberId id : chosen) {
    Process& process = processes_.at(id);
    order.emplace_back(oldest.at(host_of(process.join)), age_of(process), &process);
  }
  std::ranges::sort(order);
  int rank = 0;
  for (const auto& [age_of_host, age, process] : order) {
    process->join.rank = rank++;
    if (process->local_rank >= 0) continue;
    std::set<int>& numbers = taken[host_of(process->join)];
    int own = std::max(process->join.local_rank, 0);
    if (numbers.contains(own)) own = 0;
    while (numbers.contains(own)) own++;
    process->local_rank = *numbers.insert(own).first;
  }
}

// assign() would number the local ranks anew where some are missing.
std::vector<Assigned> Membership::places(const std::vector<MemberId>& chosen) const {
  std::vector<Join> joins;
  std::map<Host, int> local_sizes;
  for (const MemberId id : chosen) {
    const Process& process = processes_.at(id);
    joins.push_back(process.join);
    int& local_size = local_sizes[host_of(process.join)];
    local_size = std::max(local_size, process.local_rank + 1);
  }
  std::vector<Assigned> assigned = assign(joins, generation_);
  for (std::size_t i = 0; i < chosen.size(); i++) {
    assigned[i].local_rank = processes_.at(chosen[i]).local_rank;
    assigned[i].local_size = local_sizes.at(host_of(joins[i]));
  }
  return assigned;
}

// "left: rank 3 (node-a, pid 7): it ended or lost its connection; joined: node-b pid 9". Empty for a job's first world.
std::string Membership::change(const std::vector<MemberId>& chosen) const {
  if (generation_ == first_of_job_) return {};
  std::string left, came;
  for (const std::string& one : left_) left += text(left.empty() ? "left: " : ", ", one);
  for (const MemberId id : chosen) {
    const Process& process = processes_.at(id);
    if (!was_in_a_world(process))
      came += text(came.empty() ? "joined: " : ", ", process.join.host, " pid ", process.join.pid);
  }
  return text(left, left.empty() || came.empty() ? "" : "; ", came);
}

}  // namespace anello::rendezvous
