#include "rendezvous/server/membership.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "rendezvous/protocol/describe.hpp"
#include "rendezvous/server/reachability.hpp"
#include "ring/base/text.hpp"

namespace anello::rendezvous {
namespace {

constexpr std::size_t kSpares = 64;  // processes in the lobby beyond those that a world can take

}  // namespace

Sends Membership::joined(MemberId id, const Join& join, Time now) {
  if (course_.finished) return {{{id}, Over{}}};
  if (course_.handed_over) return {{{id}, ComeAgain{}}};
  if (processes_.size() >= std::size_t(limits_.max) + kSpares)
    return refuse(id, text("there are ", processes_.size(), " processes for at most ", limits_.max,
                           " ranks; start this one again when some have ended"));
  std::vector<Join> all{join};
  for (const auto& [other, process] : processes_) all.push_back(process.join);
  if (const std::string why = unreachable(all); !why.empty()) return refuse(id, why, ErrorCode::configuration);
  ElasticProcess process;
  process.join = join;
  if (!inheritance_) process.join.rank = -1;  // a rank that the process asks for would be valid only in one world
  process.seat = course_.joined++;
  process.answered = now;
  const bool returns = process.returns();
  processes_.emplace(id, std::move(process));
  if (!deadlines_.inquiry) deadlines_.inquiry = now + kInquiryInterval;
  if (!returns) return {};
  // It comes again after its connection was cut, and this server has not noticed the end of the old connection yet.
  const auto is_old = [&](const auto& one) {
    return one.first != id && one.second.returns() && one.second.join.rank == join.rank;
  };
  Sends sends;
  if (const auto old = std::ranges::find_if(processes_, is_old); old != processes_.end())
    sends = disconnected(old->first, now);
  if (phase_ == Phase::starting)
    std::ranges::move(start_again(text(describe(join), " has come back"), now), std::back_inserter(sends));
  return sends;
}

Sends Membership::received(MemberId id, const Request& request, Time now) {
  const auto at = processes_.find(id);
  if (at == processes_.end()) return {};
  // True if the process was silent together with the others (silent_of()). These will answer in a moment too.
  const bool was_suspended = at->second.asked && now - at->second.answered >= limits_.silence;
  for (auto other = processes_.begin(); was_suspended && other != processes_.end(); other++)
    other->second.answered = now;
  at->second.answered = now;
  at->second.missed = false;
  if (std::holds_alternative<Retire>(request))
    return retire([id](MemberId one, const ElasticProcess&) { return one == id; }, now);
  return std::visit([&](const auto& message) { return handle(id, message, now); }, request);
}

Sends Membership::handle(MemberId id, const Enter& enter, Time now) {
  ElasticProcess& process = processes_.at(id);
  if (inheritance_ && process.state == State::arrived && enter.generation > 0) return return_to_world(id, enter, now);
  if (process.state == State::arrived && enter.generation == 0) {
    process.join.rank = -1;
    process.state = State::waiting;
    process.entered = now;
    Sends sends = release_idle(now);
    plan_change(now);
    std::ranges::move(start_if_complete(now), std::back_inserter(sends));
    return sends;
  }
  const bool comes_from_newest = process.state == State::starting || process.state == State::member;
  // Another process may have come to this successor from a start with a higher number.
  const bool has_its_number = enter.generation == generation_ || (inheritance_ && enter.generation < generation_);
  if (!comes_from_newest || !has_its_number)
    return lose(id, text("it comes from world ", enter.generation, ", and the newest one is ", generation_), now);
  process.state = State::waiting;
  // A newcomer of a start that failed has no right to a place before the processes of the last world.
  if (inheritance_ && process.since > inheritance_->lineage().generation) {
    process.since = 0;
    process.entered = now;
  }
  Sends sends;
  if (phase_ == Phase::starting)
    sends = start_again(text(describe(process.join), " could not start"), now);
  else if (phase_ != Phase::gathering)
    sends = end_world(now);
  std::ranges::move(release_idle(now), std::back_inserter(sends));
  std::ranges::move(start_if_complete(now), std::back_inserter(sends));
  return sends;
}

Sends Membership::handle(MemberId id, const Contribution& contribution, Time now) {
  const ElasticProcess& process = processes_.at(id);
  // Ignores a contribution to a start that is over, from a process that has not received its Again yet.
  if (phase_ != Phase::starting || process.state != State::starting) return {};
  Send send;
  for (const auto& [other, one] : processes_) {
    if (one.state == State::member) return lose(id, text("it still exchanges, but ", describe(one.join), " left"), now);
    if (one.state == State::starting) send.to.push_back(other);
  }
  if (round_.has(process.join.rank)) return lose(id, "it sent a contribution out of turn", now);
  if (!round_.add(process.join.rank, contribution.blob))
    return lose(id, text("the contributions to one exchange have more than ", ExchangeRound::kMaxBytes, " bytes"), now);
  if (round_.count() < send.to.size()) return {};
  deadlines_.start = now + start_patience_;
  send.reply = round_.take();
  return {std::move(send)};
}

Sends Membership::handle(MemberId id, const Leave&, Time now) {
  ElasticProcess& process = processes_.at(id);
  if (process.state != State::starting) return {};
  process.state = State::member;
  const auto is_incomplete = [](const auto& one) {
    return one.second.was_in_a_world() && one.second.state != State::member;
  };
  if (std::ranges::any_of(processes_, is_incomplete)) return {};
  phase_ = Phase::steady;  // the world runs, even if its start was given up a moment ago
  course_.worlds_formed++;
  course_.last_failure.clear();
  course_.left.clear();
  course_.newest_complete = generation_;
  inheritance_.reset();
  deadlines_.start.reset();
  plan_change(now);
  return {};
}

// If a process could not reach another one, the older of the two stays in the job.
Sends Membership::handle(MemberId id, const Fail& fail, Time now) {
  if (fail.rank >= 0) {
    const std::uint32_t since = processes_.at(id).since;
    for (const auto& [other, process] : processes_)
      if (process.state == State::starting && process.join.rank == fail.rank && process.since > since)
        return lose(other, text(describe(processes_.at(id).join), " could not reach it: ", fail.reason), now);
    return {};
  }
  return lose(id, text("it gave up: ", fail.reason), now);
}

Sends Membership::handle(MemberId id, const Begun&, Time now) {
  processes_.at(id).trained = generation_;
  course_.begun |= processes_.at(id).was_in_a_world();
  plan_change(now);  // another process may have stayed only until this process has the state
  return {};
}

Sends Membership::handle(MemberId id, const Commits& commits, Time) {
  processes_.at(id).commits = commits.count;
  return announce_if_counted();
}

// A process in the lobby that had not answered for a while may be taken into the next world, because it has answered
// now.
Sends Membership::handle(MemberId, const Present&, Time now) {
  plan_change(now);
  return start_if_complete(now);
}

Sends Membership::handle(MemberId id, const Done&, Time now) {
  if (!processes_.at(id).was_in_a_world()) return lose(id, "it has finished without a world", now);
  processes_.erase(id);
  course_.finished = true;
  Send over{{}, Over{}};
  for (const auto& [other, process] : processes_)
    if (!process.was_in_a_world()) over.to.push_back(other);
  for (const MemberId other : over.to) processes_.erase(other);
  Sends sends = over.to.empty() ? Sends() : Sends{std::move(over)};
  std::ranges::move(after_end(now), std::back_inserter(sends));
  return sends;
}

// Begins to gather the processes of the next world. From now on, each process of the last world that has not entered
// must answer the inquiries.
void Membership::gather(Time now) {
  phase_ = Phase::gathering;
  course_.ended_as_planned = false;
  round_.clear();
  deadlines_.enough.reset();
  deadlines_.start.reset();
  deadlines_.change.reset();
  deadlines_.inquiry = now;
}

// Call this when a process of the newest world has entered again, so that this world is over. If the other processes
// wait for the commit at which the world ends, they need not wait any longer, and are sent a boundary.
Sends Membership::end_world(Time now) {
  Send send{{}, Boundary{0}};
  if (phase_ == Phase::counting)
    for (const auto& [id, process] : processes_)
      if (process.state == State::member) send.to.push_back(id);
  const bool as_planned = phase_ == Phase::announced && course_.left.empty();
  gather(now);
  course_.ended_as_planned = as_planned;
  return send.to.empty() ? Sends() : Sends{std::move(send)};
}

// Gives up the start of the newest world: its processes that have not ended must enter again. Those whose part of the
// start was complete are sent nothing, because they notice the failure themselves.
Sends Membership::start_again(const std::string& reason, Time now) {
  Send send{{}, Again{reason}};
  for (const auto& [id, process] : processes_)
    if (process.state == State::starting) send.to.push_back(id);
  course_.last_failure = reason;
  gather(now);
  return send.to.empty() ? Sends() : Sends{std::move(send)};
}

Sends Membership::retire(const std::function<bool(MemberId, const ElasticProcess&)>& leaves, Time now) {
  for (auto& [id, process] : processes_) process.retires |= leaves(id, process);
  plan_change(now);
  return release_idle(now);
}

Sends Membership::expect(int newcomers, Time now) {
  newcomers_.expect(newcomers);
  plan_change(now);
  return release_idle(now);
}

// In a job of at most one rank, no other process can get the state.
LeaveRules Membership::leave_rules() const {
  return {.newest_world = generation_,
          .state_matters = course_.begun && !course_.finished && limits_.max > 1,
          .awaits_newcomers = newcomers_.are_expected(),
          .ended_as_planned = course_.ended_as_planned,
          .at_successor = inheritance_.has_value()};
}

// Removes the processes that are in no world and were asked to leave, if they may leave now. If the state is lost with
// such a process, or with the processes that leave next, the process must not end as if all was well.
Sends Membership::release_idle(Time now) {
  const auto leaves = [this](const auto& one) {
    const bool idle = one.second.state == State::arrived || one.second.state == State::waiting;
    return idle && one.second.retires && may_leave(processes_, one.first, leave_rules());
  };
  const auto goes_on = [this](const auto& one) {
    return !one.second.retires && (one.second.was_in_a_world() || !course_.begun);
  };
  Sends sends;
  for (auto at = processes_.begin(); (at = std::ranges::find_if(processes_, leaves)) != processes_.end();) {
    const MemberId id = at->first;
    const ElasticProcess leaver = std::move(at->second);
    processes_.erase(at);
    course_.released[leaver.join.place] = std::int64_t(id);
    const bool others_go_on =
        course_.finished || keeper_of(processes_, leave_rules()) || std::ranges::any_of(processes_, goes_on);
    Sends last_words{{{id}, Over{}}};
    if (leaver.was_in_a_world() && !others_go_on)
      last_words = refuse(id, text("all processes of the job's world were asked to leave",
                                   course_.begun ? ": the state of the job is lost with them; start the job again from "
                                                   "its checkpoint"
                                                 : " before it had begun to train"));
    std::ranges::move(last_words, std::back_inserter(sends));
    std::ranges::move(after_loss(leaver, "it was asked to leave", now), std::back_inserter(sends));
  }
  return sends;
}

Sends Membership::disconnected(MemberId id, Time now) {
  const auto at = processes_.find(id);
  if (at == processes_.end()) return {};
  const ElasticProcess lost = std::move(at->second);
  processes_.erase(at);
  return after_loss(lost, "it ended or lost its connection", now);
}

// Removes a process from the job, and sends it the reason.
Sends Membership::lose(MemberId id, std::string_view reason, Time now) {
  const auto at = processes_.find(id);
  const ElasticProcess lost = std::move(at->second);
  processes_.erase(at);
  Sends sends = refuse(id, text("this process has lost its place in the job: ", reason));
  std::ranges::move(after_loss(lost, reason, now), std::back_inserter(sends));
  return sends;
}

Sends Membership::after_loss(const ElasticProcess& lost, std::string_view reason, Time now) {
  if (!lost.was_in_a_world()) {
    if (candidates_of(processes_, limits_.max).empty()) deadlines_.enough.reset();
    plan_change(now);
    Sends sends = release_idle(now);
    std::ranges::move(start_if_complete(now), std::back_inserter(sends));  // the others may have waited only for it
    return sends;
  }
  course_.left.push_back(text(describe(lost.join), ": ", reason));
  if (phase_ != Phase::starting || members() == 0) return after_end(now);
  Sends sends = start_again(course_.left.back(), now);
  std::ranges::move(start_if_complete(now), std::back_inserter(sends));
  return sends;
}

// Call this after a process of the newest world has been removed.
Sends Membership::after_end(Time now) {
  if (members() > 0 || (inheritance_ && !course_.hands_over)) {
    deadlines_.inquiry = now;
    plan_change(now);
    return phase_ == Phase::counting ? announce_if_counted() : start_if_complete(now);
  }
  if (course_.finished) return end_job(Over{});
  if (course_.begun || course_.hands_over) {
    course_.lost = course_.begun;
    course_.last_failure =
        text("the state of the job is lost, because no process that had it is left; ", course_.left.back());
    return end_job(
        Failed{ErrorCode::rendezvous, -1, course_.last_failure + "; start the job again from its checkpoint"});
  }
  gather(now);
  return start_if_complete(now);
}

// Ends the job here for all processes. After a failure, processes that join later belong to another job. After the end
// of the training, no further process is needed. The job may also go on at another server.
Sends Membership::end_job(const Reply& last_word) {
  Send send{{}, last_word};
  for (const auto& [id, process] : processes_) send.to.push_back(id);
  processes_.clear();
  gather({});
  deadlines_.inquiry.reset();
  course_.begun = false;
  course_.finished = std::holds_alternative<Over>(last_word);
  course_.handed_over = course_.hands_over;
  course_.left.clear();
  course_.first_of_job = generation_ + 1;
  return send.to.empty() ? Sends() : Sends{std::move(send)};
}

Sends Membership::refuse(MemberId id, const std::string& why, ErrorCode code) {
  course_.last_failure = why;
  return {{{id}, Failed{code, -1, why}}};
}

ElasticStatus Membership::status() const {
  ElasticStatus out{generation_, course_.worlds_formed, course_.begun, course_.finished,
                    {},          course_.released,      course_.lost,  course_.ranks};
  for (const auto& [id, process] : processes_) {
    const bool awaited = phase_ == Phase::gathering && is_awaited(phase_, process);
    out.processes.push_back(
        {process.join.place, process.join.rank, std::int64_t(id), awaited, process.retires, process.trained > 0});
  }
  return out;
}

}  // namespace anello::rendezvous
