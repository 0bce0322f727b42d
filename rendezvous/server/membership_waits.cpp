// The waits of a membership: for processes that have not entered, for enough of them, for the steps of a start.
#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "rendezvous/protocol/describe.hpp"
#include "rendezvous/server/membership.hpp"
#include "ring/base/rank_list.hpp"
#include "ring/base/text.hpp"

namespace anello::rendezvous {
namespace {

// Time for which the membership waits for further processes when a change of the world is wanted, so that one change is
// enough for all of them.
constexpr std::chrono::milliseconds kSettle{200};

}  // namespace

std::string Membership::waiting() const {
  if (processes_.empty()) return "";
  if (inheritance_ && phase_ == Phase::gathering) {
    std::set<int> come = returned();
    for (const auto& [id, process] : processes_)
      if (process.returns()) come.insert(process.join.rank);
    if (const std::string missing = inheritance_->missing(come); !missing.empty())
      return text("waiting for world ", generation_ + 1, " as the successor of the server; missing: ", missing);
  }
  if (phase_ == Phase::gathering && awaited_of(phase_, processes_).empty()) {
    const std::size_t present = candidates_of(processes_, limits_.max).size();
    return present == 0 ? "" : text("waiting: ", present, " of at least ", needed(), " processes are there");
  }
  std::vector<Join> late;
  for (const MemberId id : awaited_of(phase_, processes_)) late.push_back(processes_.at(id).join);
  return late.empty()
             ? ""
             : text("waiting for world ", generation_ + (phase_ == Phase::gathering), ": ", members() - late.size(),
                    " of ", members(), " processes are ready; not yet ", present_list(late));
}

std::optional<Time> Deadlines::first() const {
  std::optional<Time> first;
  for (const std::optional<Time>& one : {enough, start, inquiry, change})
    if (one && (!first || *one < *first)) first = one;
  return first;
}

Sends Membership::expired(Time now) {
  Sends sends;
  const auto due = [&](const std::optional<Time>& one) { return one && *one <= now; };
  const auto add = [&](Sends more) { std::ranges::move(more, std::back_inserter(sends)); };
  if (due(deadlines_.inquiry)) add(inquire(now));
  if (due(deadlines_.enough)) add(give_up_waiting(now));
  if (due(deadlines_.start)) add(end_slow_start(now));
  if (due(deadlines_.change)) add(ask_commits(now));
  return sends;
}

// Asks all processes that must answer whether they still do, and removes those that have been silent for too long. A
// process that computes answers on another thread. A process that is stopped, or whose host is cut off, does not
// answer.
Sends Membership::inquire(Time now) {
  // If this process was stopped for a while, answers that came in this time are still unread.
  if (now - *std::exchange(deadlines_.inquiry, std::nullopt) >= kInquiryInterval)
    for (auto& [id, process] : processes_) process.answered = now;
  const auto is_asked = [this](const ElasticProcess& process) {
    return must_answer(phase_, course_.finished || !course_.left.empty(), process);
  };
  Sends sends;
  for (auto& [id, process] : processes_)
    if (!std::exchange(process.asked, is_asked(process))) process.answered = now;
  for (const auto& [id, limit] : silent_of(processes_, limits_, course_.begun && !course_.finished, now)) {
    const auto at = processes_.find(id);
    // The loss of another process may have changed the phase, so that this process is no longer asked.
    if (at == processes_.end() || !is_asked(at->second)) continue;
    std::ranges::move(lose(id, text("it was silent for ", seconds(limit)), now), std::back_inserter(sends));
  }
  Send ask{{}, AskPresence{}};
  for (auto& [id, process] : processes_) {
    // Processes that wait are asked too, because the questions show them that this server still answers.
    if (phase_ == Phase::gathering && process.state == State::waiting) ask.to.push_back(id);
    if (!is_asked(process)) continue;
    process.missed = now - process.answered >= 2 * kInquiryInterval;
    if (ask.to.empty() || ask.to.back() != id) ask.to.push_back(id);
  }
  if (ask.to.empty()) return sends;
  deadlines_.inquiry = now + kInquiryInterval;
  sends.push_back(std::move(ask));
  return sends;
}

// Starts the next world with fewer processes than wished if there are enough for a world; otherwise ends the job.
Sends Membership::give_up_waiting(Time now) {
  deadlines_.enough.reset();
  if (inheritance_ && (!awaited_of(phase_, processes_).empty() || !inheritance_->awaits_nobody(returned()))) return {};
  if (inheritance_ && !inheritance_->allows(returned())) {
    course_.last_failure =
        text("the rendezvous server has ended, and without it more than half of the last world must go on; missing: ",
             inheritance_->missing(returned()));
    return end_job(Failed{ErrorCode::rendezvous, -1, course_.last_failure});
  }
  const std::vector<MemberId> chosen = candidates_of(processes_, limits_.max);
  if (chosen.size() >= std::size_t(limits_.min)) return start(chosen, now);
  course_.last_failure = text("only ", chosen.size(), " of at least ", limits_.min, " processes were there within ",
                              seconds(course_.begun ? limits_.patience : start_patience_));
  return end_job(Failed{ErrorCode::rendezvous, -1, course_.last_failure});
}

// Ends a start whose next step is late. During an exchange, the ranks that have not contributed to it lose their
// places. Between two exchanges it is not clear which rank is at fault.
Sends Membership::end_slow_start(Time now) {
  deadlines_.start.reset();
  std::vector<MemberId> late;
  for (const auto& [id, process] : processes_)
    if (process.state == State::starting && round_.count() > 0 && !round_.has(process.join.rank)) late.push_back(id);
  if (late.empty()) return start_again("the start did not progress", now);
  Sends sends;
  for (const MemberId id : late)
    if (processes_.contains(id))
      std::ranges::move(lose(id, text("it did not start within ", seconds(start_patience_)), now),
                        std::back_inserter(sends));
  return sends;
}

Sends Membership::hand_over(Time now) {
  course_.hands_over = true;
  // While this server inherits the last world, the other processes wait here for this server's own process, which does
  // not come any more.
  if (members() == 0 || inheritance_) return end_job(ComeAgain{});
  plan_change(now);
  return {};
}

bool Membership::wants_change() const {
  return course_.hands_over || want_change(processes_, limits_.max, keeper_of(processes_, leave_rules()));
}

void Membership::plan_change(Time now) {
  if (phase_ != Phase::steady || course_.finished || !wants_change()) return;
  const Time soon = now + kSettle;
  const bool waits_needlessly =
      deadlines_.change > soon && (course_.hands_over || !newcomers_.wait_until(processes_, limits_.max));
  if (!deadlines_.change || waits_needlessly) deadlines_.change = soon;
}

Sends Membership::ask_commits(Time now) {
  deadlines_.change.reset();
  if (phase_ != Phase::steady || course_.finished || !wants_change()) return {};
  if (const auto end = newcomers_.wait_until(processes_, limits_.max); !course_.hands_over && end > now) {
    deadlines_.change = end;
    return {};
  }
  Send send{{}, AskCommits{}};
  for (auto& [id, process] : processes_) {
    if (process.state != State::member) continue;
    process.commits.reset();
    send.to.push_back(id);
  }
  phase_ = Phase::counting;
  if (!deadlines_.inquiry) deadlines_.inquiry = now + kInquiryInterval;
  return {std::move(send)};
}

// Sends the boundary when all ranks have reported their commits. No rank may have passed the boundary. A rank that has
// reported its commits makes at most one more before it has the boundary. So no rank can have passed the commit that
// follows the highest number.
Sends Membership::announce_if_counted() {
  if (phase_ != Phase::counting || !awaited_of(phase_, processes_).empty()) return {};
  Boundary boundary;
  Send send;
  for (const auto& [id, process] : processes_) {
    if (process.state != State::member) continue;
    send.to.push_back(id);
    boundary.commit = std::max(boundary.commit, process.commits.value() + 1);
  }
  phase_ = Phase::announced;
  send.reply = boundary;
  return {std::move(send)};
}

}  // namespace anello::rendezvous
