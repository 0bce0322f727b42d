#include "rendezvous/launch/processes/elastic_supervisor.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

#include "rendezvous/launch/processes/start_problem.hpp"
#include "ring/base/text.hpp"

namespace anello::launch {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kMembershipLooks{100};
// Time after a process's exit in which the membership must receive that it has finished.
constexpr milliseconds kLateWord{1000};
constexpr milliseconds kSoon{60000};
// A process that has not joined after this time is not expected to join at all.
constexpr milliseconds kJoinLimit{60000};
constexpr Cooldown kRest{milliseconds(1000), milliseconds(60000)};
constexpr int kEarlyFailures = 2;

// Returns how long a place rests after this number of failures in a row. After the first failure, the process is
// replaced at once.
milliseconds rest_after(int failures) {
  return kRest.after(failures - 1);
}

}  // namespace

ElasticSupervisor::ElasticSupervisor(const Job& job, Actions actions, std::function<MembershipView()> look)
    : Supervisor(job, std::move(actions)),
      limits_(*job.elastic),
      look_(std::move(look)),
      places_(std::size_t(job.size)),
      target_(limits_.first),
      wished_(limits_.max),
      fresh_(limits_.first) {}

void ElasticSupervisor::wake(Clock::time_point now) {
  look(now);
  for (int place = 0; place < job_.size; place++) kill_if_cut_off(place, now);
  fill(now);
  report_newcomers(now);
  end_if_over(now);
  next_look_ = now + kMembershipLooks;
}

void ElasticSupervisor::look(Clock::time_point now) {
  view_ = look_();
  std::vector<bool> present(places_.size());
  for (Place& place : places_) place.rank = -1, place.awaited = false;
  for (const MembershipView::Member& member : view_.members) {
    if (member.place < 0 || member.place >= job_.size) continue;
    Place& place = at(member.place);
    // The launcher may receive the end of a process before the server does, and then the server still lists it.
    if (member.id >= 0 && member.id == place.predecessor) continue;
    present[std::size_t(member.place)] = true;
    place.member = member.id;
    place.joined = true;
    place.rank = member.rank;
    place.awaited = member.awaited;
    if (member.retires && !place.leaves && !place.has_notice) {
      note_notice(member.place);
      actions_.print(text("process ", member.place, " was asked by a signal to leave, and does so at the next commit"));
    }
    place.trained |= member.trained;
    place.may_have_state |= member.rank >= 0 && view_.begun;
  }
  any_trained_ |= view_.begun || view_.lost;  // the training may have begun and lost its state between two looks
  for (const auto& [number, id] : view_.released) {
    if (number < 0 || number >= job_.size || !at(number).alive || at(number).leaves) continue;
    if (id <= at(number).predecessor || id < at(number).member) continue;  // an earlier process of this place
    if (!at(number).has_notice) note_notice(number);
    at(number).released = true;
  }
  for (std::size_t i = 0; i < places_.size(); i++) {
    Place& place = places_[i];
    if (present[i] || !place.alive || !place.joined)
      place.absent_since.reset();
    else if (!place.absent_since)
      place.absent_since = now;
    place.is_missed |= place.absent_since && !view_.finished;
  }
}

// A process that has failed may take long to exit, and the others do not wait for its exit. So the processes of its
// host are ended when the others report the failure, and its places rest from then on. When the process exits, this
// rest begins anew.
void ElasticSupervisor::received(const world::LastWord& word, Clock::time_point now) {
  if (phase_ != Phase::running) return;
  look(now);
  Place* const culprit = culprit_of(word);
  // If the others have finished in a later world, the process failed before they finished.
  if (!culprit || (view_.finished && word.generation == view_.generation)) return;
  culprit->is_missed = true;
  if (view_.finished || limits_.on_failure != ElasticJob::OnFailure::host) return;
  const int number = int(culprit - places_.data());
  let_rest(number, failures_at(now, *culprit), now);
  kill_others_of_host(number);
}

// Returns the place of the process that ended that world; null if that process has been replaced, or was asked to
// leave.
ElasticSupervisor::Place* ElasticSupervisor::culprit_of(const world::LastWord& word) {
  const auto seats = view_.ranks.find(word.generation);
  if (seats == view_.ranks.end() || word.culprit < 0 || std::size_t(word.culprit) >= seats->second.size())
    return nullptr;
  const MembershipView::Seat seat = seats->second[std::size_t(word.culprit)];
  if (seat.place < 0 || seat.place >= job_.size) return nullptr;
  Place& place = at(seat.place);
  const bool is_same = place.alive && place.member == seat.id && (seat.id < 0 || seat.id != place.predecessor);
  return is_same && !place.leaves && !place.has_notice ? &place : nullptr;
}

void ElasticSupervisor::exited(const Report& report, Clock::time_point now) {
  ranks_.ended(report.rank, report.status == 0);
  if (phase_ != Phase::running) return;
  look(now);
  Place& place = at(report.rank);
  place.alive = false;
  place.predecessor = place.member;
  if (const auto released = view_.released.find(report.rank); released != view_.released.end())
    place.predecessor = std::max(place.predecessor, released->second);  // it may have joined since the last look
  if (std::exchange(place.leaves, false)) {
    place.starts = place.failures = 0;  // it is free for another process
    actions_.print(text("process ", report.rank, " has left, as it was asked to"));
    next_look_ = now;
    return;
  }
  // A process that ends with status 0 before the membership has released it may have finished the training.
  if (place.has_notice && (place.released || (!view_.finished && report.status != 0)))
    return left_after_notice(report.rank, now);
  if (report.status != 0 && std::exchange(place.ends_with_host, false)) return;
  if (report.status != 0) return process_failed(report, now);
  place.closed = true;
  if (!place.has_notice) target_--;
  place.left = Left{report, now};
  next_look_ = now;
}

// The signal announces that the process's host will be taken away. So its place and the free places of that host are
// closed, and a process is started on another host at once, if a place is free there. The new process may have to get
// the state from this process. This does not count as a restart after a failure.
void ElasticSupervisor::note_notice(int number) {
  at(number).has_notice = at(number).closed = true;
  const HostRanks& here = job_.ranks_beside(number);
  for (int place = here.first; place < here.first + here.count; place++)
    at(number).closes_others |= !at(place).alive && !std::exchange(at(place).closed, true);
  const auto is_free = [](const Place& place) { return !place.alive && !place.closed; };
  if (std::ranges::count_if(places_, is_free) > fresh_)
    fresh_++;
  else
    target_--;
}

void ElasticSupervisor::left_after_notice(int number, Clock::time_point now) {
  any_left_ = true;
  actions_.print(text(
      "process ", number, " has left after a signal, and ",
      at(number).closes_others ? "the free places of " + job_.host_of(number) + " stay" : "its place stays", " empty"));
  next_look_ = now;
}

// A program that is missing on one host must not end a job that trains on others.
void ElasticSupervisor::not_started(int number, int problem, Clock::time_point now) {
  if (!any_trained_) return Supervisor::not_started(number, problem, now);
  if (phase_ != Phase::running) return;
  failure_cause_ = Report{Report::Kind::exited, number, -1, exit_code_of(problem) << 8};
  at(number).alive = false;
  at(number).closed = true;
  actions_.print(text(describe_start_problem(problem, job_.command[0], " on " + job_.host_of(number)), "; process ",
                      number, " is not started again"));
  if (!job_.discovery.empty()) fit_places(now);
  next_look_ = now;
}

void ElasticSupervisor::process_failed(const Report& report, Clock::time_point now) {
  failure_cause_ = report;
  actions_.print(describe(report));
  const int code = exit_code_of_status(report.status);
  if (view_.finished) {
    if (at(report.rank).is_missed || has_no_rank(at(report.rank))) return;  // the others have finished without it
    if (exit_code_ == 0) exit_code_ = code;
    culprit_ = report.rank;
    failure_ = describe(report) + " after the training had ended";
    return;
  }
  if (limits_.on_failure == ElasticJob::OnFailure::job) return give_up(describe(report), now);
  Place& place = at(report.rank);
  place.failures = failures_at(now, place);
  place.early_failures = place.trained ? 0 : place.early_failures + 1;
  let_rest(report.rank, place.failures, now);
  if (place.early_failures >= kEarlyFailures || (!place.trained && is_wrong_usage(code))) {
    place.closed = true;
    actions_.print(text("process ", report.rank, " is not started again, because it has failed ",
                        place.early_failures == 1 ? "" : "twice ", "before it trained"));
  }
  if (limits_.on_failure == ElasticJob::OnFailure::host) kill_others_of_host(report.rank);
  next_look_ = now;
}

// Returns true if the newest world has been made without the place's process.
bool ElasticSupervisor::has_no_rank(const Place& place) const {
  const auto seats = view_.ranks.find(view_.generation);
  if (place.member < 0 || seats == view_.ranks.end()) return false;
  return std::ranges::find(seats->second, place.member, &MembershipView::Seat::id) == seats->second.end();
}

int ElasticSupervisor::failures_at(Clock::time_point now, const Place& place) {
  return now - place.started < kSoon ? place.failures + 1 : 1;
}

// Lets this place rest after this number of failures in a row, and with --on-failure host all places of its host.
void ElasticSupervisor::let_rest(int failed_place, int failures, Clock::time_point now) {
  const bool with_host = limits_.on_failure == ElasticJob::OnFailure::host;
  const auto until = now + (with_host && limits_.cooldown ? limits_.cooldown->after(failures) : rest_after(failures));
  at(failed_place).rests_until = until;
  const HostRanks& here = job_.ranks_beside(failed_place);
  for (int other = here.first; with_host && other < here.first + here.count; other++)
    at(other).rests_until = std::max(at(other).rests_until, until);
}

void ElasticSupervisor::kill_others_of_host(int failed_place) {
  if (std::exchange(at(failed_place).host_ended, true)) return;
  const HostRanks& here = job_.ranks_beside(failed_place);
  for (int other = here.first; other < here.first + here.count; other++) {
    if (other == failed_place || !at(other).alive || std::exchange(at(other).ends_with_host, true)) continue;
    actions_.print(text("process ", other, " is ended too (--on-failure host)"));
    actions_.order({Order::Kind::kill_rank, 0, other});
  }
}

// Starts processes until enough run. Places that were used before come first, even if they must still rest, because a
// process uses the GPU and the files of its place.
void ElasticSupervisor::fill(Clock::time_point now) {
  if (view_.finished) return;
  int reserved = 0;
  for (const Place& place : places_) reserved += place.alive ? place.stays() : place.starts > 0 && !place.closed;
  for (int number = 0; number < job_.size && staying() < target_; number++) {
    Place& place = at(number);
    if (place.alive || place.closed || place.rests_until > now) continue;
    if (place.starts == 0 && reserved++ >= target_) continue;
    if (!start(number, now)) return;
  }
}

// Processes that are started together go into one new world, because the membership waits for processes that are on
// their way. If processes leave, they may also have to keep the state for processes that are started only after a rest.
void ElasticSupervisor::report_newcomers(Clock::time_point now) {
  const auto may_join = [now](const Place& place) {
    return place.alive && !place.joined && !place.leaves && now - place.started < kJoinLimit;
  };
  int count = int(std::ranges::count_if(places_, may_join));
  if (staying() < running()) count += startable();
  if (std::exchange(newcomers_, count) != count) actions_.expect(count);
}

bool ElasticSupervisor::start(int number, Clock::time_point now) {
  if (fresh_ == 0 && restarts_ >= limits_.max_restarts) return false;
  const bool again = fresh_ == 0;
  again ? restarts_++ : fresh_--;
  Place& place = at(number);
  place.starts++;
  place.alive = true;
  place.joined = place.trained = place.may_have_state = place.leaves = place.has_notice = place.released =
      place.closes_others = false;
  place.is_missed = place.host_ended = place.ends_with_host = false;
  place.started = now;
  place.absent_since.reset();
  if (again)
    actions_.print(text("process ", number, place.starts > 1 ? " is started again" : " is started instead",
                        " (restart ", restarts_, " of ", limits_.max_restarts, ")"));
  actions_.order({Order::Kind::start_rank, 0, number});
  return true;
}

// Kills a process that the membership has given up, because such a process must not go on. A process that runs has
// received an error, so it gets the grace time to end by itself. A stopped process is killed at once, because it cannot
// end by itself. A stopped process is also killed if the next world waits for it: the other ranks have given it up, and
// the membership would give it up later.
void ElasticSupervisor::kill_if_cut_off(int number, Clock::time_point now) {
  Place& place = at(number);
  const bool stopped = ranks_.is_stopped(number) && place.alive;
  const bool delays = stopped && place.awaited;
  const bool late = place.absent_since && (stopped || (!view_.finished && now - *place.absent_since >= job_.grace));
  if (!delays && !late) return;
  actions_.print(text("process ", number, " (pid ", ranks_.pid(number), ") ", stopped ? "is stopped" : "does not end",
                      delays ? ", and the next world waits for it" : " and has lost its place in the job",
                      ", so it is killed"));
  actions_.order({Order::Kind::kill_rank, 0, number});
  place.is_missed = true;
  place.joined = false;  // so that its absence leads to only one kill
  place.absent_since.reset();
  ranks_.continued(number);
}

void ElasticSupervisor::end_if_over(Clock::time_point now) {
  const int living = running();
  if (limits_.reset_limit && view_.worlds > *limits_.reset_limit + 1)
    return give_up(text("the processes of the job have changed ", view_.worlds - 1, " times, and --reset-limit is ",
                        *limits_.reset_limit),
                   now);
  if (view_.finished) {
    // A process that was ordered on a host that is still awaited is not needed any more.
    if (ranks_.alive_count() == 0) end(SIGTERM, "the job is over", now);  // also ends processes that ranks have started
    return;
  }
  if (!name_those_that_left(now)) return;
  const auto has_state = [](const Place& place) { return place.alive && place.may_have_state; };
  if (any_trained_ && std::ranges::none_of(places_, has_state))
    return give_up("no process is left that had the state of the training", now);
  if (living == 0 && any_left_ && !failure_cause_)
    return give_up(
        std::ranges::any_of(places_, &Place::has_notice)
            ? "all processes have ended, some of them after a signal that asked them to leave, and none has finished a "
              "training"
            : "all processes have ended, and none has finished a training; the program must use anello::elastic, "
              "anello.elastic or hvd.elastic.run",
        now);
  const int possible = living + startable();
  if (possible >= limits_.min) return short_since_.reset();
  if (!short_since_) short_since_ = now;
  if (job_.discovery.empty() || now - *short_since_ >= limits_.patience)
    give_up(text("only ", counted_processes(possible), possible == 1 ? " runs" : " run",
                 " or can be started, and --min-np is ", limits_.min),
            now);
}

// Prints which processes have ended with status 0 before the training had ended. Returns false if one of these
// processes may still count as finished, because the membership has not received its report yet.
bool ElasticSupervisor::name_those_that_left(Clock::time_point now) {
  bool all = true;
  for (int number = 0; number < job_.size; number++) {
    Place& place = at(number);
    if (!place.left) continue;
    if (now - place.left->at < kLateWord) {
      all = false;
      continue;
    }
    if (place.has_notice) {
      place.left.reset();
      left_after_notice(number, now);
      continue;
    }
    actions_.print(describe(place.left->report) + " before the training had ended, so it is not replaced");
    place.left.reset();
    any_left_ = true;
  }
  return all;
}

void ElasticSupervisor::host_lost(const HostLoss& loss, Clock::time_point now) {
  look(now);  // processes of the lost host may have begun to train since the last look
  for (int number = loss.ranks.first; number < loss.ranks.first + loss.ranks.count; number++) {
    ranks_.lost(number);
    at(number).alive = false;
    at(number).closed = true;
  }
  if (!loss.why.empty()) actions_.print(loss.why);
  if (!job_.discovery.empty()) fit_places(now);
  next_look_ = now;
}

void ElasticSupervisor::give_up(const std::string& why, Clock::time_point now) {
  failure_ = why;
  if (failure_cause_) culprit_ = failure_cause_->rank;
  exit_code_ = failure_cause_ ? exit_code_of_status(failure_cause_->status) : 1;
  actions_.print(why);
  end(SIGTERM, why, now);
}

int ElasticSupervisor::running() const {
  return int(std::ranges::count_if(places_, &Place::alive));
}

int ElasticSupervisor::staying() const {
  return int(std::ranges::count_if(places_, &Place::stays));
}

int ElasticSupervisor::startable() const {
  const auto open = std::ranges::count_if(places_, [](const Place& place) { return !place.alive && !place.closed; });
  return std::max(0, std::min({int(open), fresh_ + limits_.max_restarts - restarts_, target_ - staying()}));
}

std::string ElasticSupervisor::summary(bool with_reason) const {
  const std::string cause = culprit_ >= 0 ? text(" because of process ", culprit_) : "";
  return text(with_reason ? ": " + failure_ : cause, list_ended());
}

}  // namespace anello::launch
