// The start of the next world: who is in it, and with which ranks. Also the first world of a successor.
#include <algorithm>
#include <iterator>
#include <utility>

#include "rendezvous/protocol/describe.hpp"
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

void Membership::inherit(Lineage lineage, std::uint32_t newest, bool begun) {
  generation_ = course_.newest_complete = newest;
  course_.joined = lineage.newest().size();
  course_.begun = begun;
  inheritance_.emplace(std::move(lineage), limits_.silence);
}

// Takes in a process of the last world. Its rank in that world becomes its age, so that the ranks keep their order.
Sends Membership::return_to_world(MemberId id, const Enter& enter, Time now) {
  ElasticProcess& process = processes_.at(id);
  const Lineage& lineage = inheritance_->lineage();
  const int rank = process.join.rank;
  if (rank < 0 || rank >= int(lineage.newest().size()))
    return lose(id, text("world ", lineage.generation, " had no rank ", rank), now);
  Sends sends;
  // The process comes again after its connection was cut, and this server has not noticed the end of the old connection
  // yet.
  const auto is_same = [&](const auto& one) { return one.second.was_in_a_world() && int(one.second.seat) == rank; };
  if (const auto old = std::ranges::find_if(processes_, is_same); old != processes_.end())
    sends = disconnected(old->first, now);
  process.since = lineage.generation;
  process.seat = std::uint64_t(rank);
  process.local_rank = process.join.local_rank;
  process.state = State::waiting;
  generation_ = std::max(generation_, enter.generation);
  deadlines_.enough.reset();
  std::ranges::move(start_if_complete(now), std::back_inserter(sends));
  return sends;
}

// Returns the ranks that the processes which have returned had in the last world of the server before this one.
std::set<int> Membership::returned() const {
  std::set<int> ranks;
  for (const auto& [id, process] : processes_)
    if (process.was_in_a_world() && process.since <= inheritance_->lineage().generation)
      ranks.insert(int(process.seat));
  return ranks;
}

Sends Membership::found(const Peer& peer, Inheritance::Finding what, Time now) {
  if (!inheritance_) return {};
  const bool was_allowed = inheritance_->allows(returned());
  inheritance_->found(peer, what, now);
  // From now on, only the limit for the least number of processes counts.
  if (!was_allowed && inheritance_->allows(returned())) deadlines_.enough.reset();
  return start_if_complete(now);
}

int Membership::needed() const {
  if (course_.finished) return 1;
  return generation_ + 1 == course_.first_of_job ? limits_.first : limits_.min;
}

Sends Membership::start_if_complete(Time now) {
  if (phase_ != Phase::gathering || !awaited_of(phase_, processes_).empty()) return {};
  if (inheritance_ && !inheritance_->awaits_nobody(returned())) return {};
  if (inheritance_ && !inheritance_->allows(returned())) {
    if (!deadlines_.enough) deadlines_.enough = now + limits_.silence;
    return {};
  }
  const std::vector<MemberId> chosen = candidates_of(processes_, limits_.max);
  const auto is_ready = [this](const auto& one) {
    return !one.second.was_in_a_world() || one.second.trained == generation_;
  };
  const bool all_are_ready = course_.left.empty() && std::ranges::all_of(processes_, is_ready);
  if (course_.hands_over && !course_.finished && all_are_ready && !chosen.empty() && chosen.size() == members())
    return end_job(ComeAgain{});
  if (chosen.size() >= std::size_t(needed())) return start(chosen, now);
  if (!chosen.empty() && !deadlines_.enough)
    deadlines_.enough = now + (course_.begun ? limits_.patience : start_patience_);
  return {};
}

Sends Membership::start(const std::vector<MemberId>& chosen, Time now) {
  generation_++;
  if (inheritance_) {
    const std::string missing = inheritance_->missing(returned());
    course_.left = missing.empty() ? std::vector<std::string>() : std::vector{missing};
  }
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
  constexpr std::size_t kWorlds = 4;
  std::vector<ElasticStatus::Seat>& seats = course_.ranks[generation_];
  seats.resize(chosen.size());
  for (std::size_t i = 0; i < chosen.size(); i++)
    seats[std::size_t(processes[i]->join.rank)] = {processes[i]->join.place, std::int64_t(chosen[i])};
  if (course_.ranks.size() > kWorlds) course_.ranks.erase(course_.ranks.begin());
  std::vector<Assigned> assigned = places_of(processes, generation_);
  Sends sends;
  for (std::size_t i = 0; i < chosen.size(); i++) {
    assigned[i].incarnation = incarnation_;
    assigned[i].begun = course_.begun;
    assigned[i].change = change;
    if (limits_.may_be_succeeded) assigned[i].inherited = {limits_.min, limits_.max, limits_.patience, limits_.silence};
    sends.push_back({{chosen[i]}, std::move(assigned[i])});
  }
  return sends;
}

}  // namespace anello::rendezvous
