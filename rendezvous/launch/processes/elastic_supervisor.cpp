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
constexpr milliseconds kSoon{60000}, kFirstRest{1000}, kMaxRest{60000};
constexpr int kEarlyFailures = 2;

// Returns how long a place rests after this number of failures in a row. After the first failure, the process is
// replaced at once.
milliseconds rest_after(int failures) {
  constexpr int kMaxDoublings = 10;
  if (failures <= 1) return milliseconds(0);
  return std::min(kFirstRest * (1 << std::min(failures - 2, kMaxDoublings)), kMaxRest);
}

std::string counted_processes(int count) {
  return text(count, count == 1 ? " process" : " processes");
}

}  // namespace

ElasticSupervisor::ElasticSupervisor(const Job& job, Actions actions, std::function<MembershipView()> look)
    : Supervisor(job, std::move(actions)),
      limits_(*job.elastic),
      look_(std::move(look)),
      places_(std::size_t(job.size)),
      target_(limits_.first),
      fresh_(limits_.first) {}

void ElasticSupervisor::wake(Clock::time_point now) {
  look(now);
  for (int place = 0; place < job_.size; place++) kill_if_cut_off(place, now);
  fill(now);
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
    // The launcher may receive the end of a process before the server does.
    if (member.id >= 0 && member.id == place.predecessor) continue;
    present[std::size_t(member.place)] = true;
    place.member = member.id;
    place.joined = true;
    place.rank = member.rank;
    place.awaited = member.awaited;
    place.trained = place.trained || (member.rank >= 0 && view_.begun);
    any_trained_ = any_trained_ || place.trained;
  }
  for (std::size_t i = 0; i < places_.size(); i++) {
    Place& place = places_[i];
    if (present[i] || !place.alive || !place.joined)
      place.absent_since.reset();
    else if (!place.absent_since)
      place.absent_since = now;
  }
}

void ElasticSupervisor::exited(const Report& report, Clock::time_point now) {
  ranks_.ended(report.rank, report.status == 0);
  if (phase_ != Phase::running) return;
  look(now);
  Place& place = at(report.rank);
  place.alive = false;
  place.predecessor = place.member;
  if (std::exchange(place.leaves, false)) {
    place.starts = place.failures = 0;  // it is free for another process
    actions_.print(text("process ", report.rank, " has left, as it was asked to"));
    next_look_ = now;
    return;
  }
  if (report.status != 0 && std::exchange(place.ends_with_host, false)) return;
  if (report.status != 0) return process_failed(report, now);
  place.closed = true;
  target_--;
  place.left = Left{report, now};
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
    if (at(report.rank).cut_off) return;  // the others have finished the training without this process
    if (exit_code_ == 0) exit_code_ = code;
    culprit_ = report.rank;
    failure_ = describe(report) + " after the training had ended";
    return;
  }
  if (limits_.on_failure == ElasticJob::OnFailure::job) return give_up(describe(report), now);
  Place& place = at(report.rank);
  place.failures = now - place.started < kSoon ? place.failures + 1 : 1;
  place.early_failures = place.trained ? 0 : place.early_failures + 1;
  place.rests_until = now + rest_after(place.failures);
  if (place.early_failures >= kEarlyFailures || (!place.trained && is_wrong_usage(code))) {
    place.closed = true;
    actions_.print(text("process ", report.rank, " is not started again, because it has failed ",
                        place.early_failures == 1 ? "" : "twice ", "before it trained"));
  }
  if (limits_.on_failure == ElasticJob::OnFailure::host) kill_others_of_host(report.rank);
  next_look_ = now;
}

void ElasticSupervisor::kill_others_of_host(int failed_place) {
  for (const HostRanks& here : job_.layout)
    for (int other = here.first; here.has(failed_place) && other < here.first + here.count; other++) {
      if (at(other).alive && !std::exchange(at(other).ends_with_host, true)) {
        actions_.print(text("process ", other, " is ended too (--on-failure host)"));
        actions_.order({Order::Kind::kill_rank, 0, other});
      }
      at(other).rests_until = at(failed_place).rests_until;
    }
}

// Starts processes until enough run. Places that were used before come first, even if they must still rest, because a
// process uses the GPU and the files of its place.
void ElasticSupervisor::fill(Clock::time_point now) {
  if (view_.finished) return;
  int reserved = 0;
  for (const Place& place : places_) reserved += place.alive || (place.starts > 0 && !place.closed);
  for (int number = 0; number < job_.size && running() < target_; number++) {
    Place& place = at(number);
    if (place.alive || place.closed || place.rests_until > now) continue;
    if (place.starts == 0 && reserved++ >= target_) continue;
    if (!start(number, now)) return;
  }
}

bool ElasticSupervisor::start(int number, Clock::time_point now) {
  if (fresh_ == 0 && restarts_ >= limits_.max_restarts) return false;
  const bool again = fresh_ == 0;
  again ? restarts_++ : fresh_--;
  Place& place = at(number);
  place.starts++;
  place.alive = true;
  place.joined = place.trained = place.leaves = place.cut_off = place.ends_with_host = false;
  place.started = now;
  place.absent_since.reset();
  if (again)
    actions_.print(text("process ", number, place.starts > 1 ? " is started again" : " is started instead",
                        " (restart ", restarts_, " of ", limits_.max_restarts, ")"));
  actions_.order({Order::Kind::start_rank, 0, number});
  return true;
}

// Kills a process that the membership has given up, because it must not go on. If it runs, it has received an error, so
// it gets the grace time to end by itself. If it is stopped, it is killed at once, because it cannot end by itself. A
// stopped process is also killed if the next world waits for it, because the other ranks have given it up, and the
// membership would do so later.
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
  place.cut_off = true;
  place.joined = false;  // so that its absence leads to one kill only
  place.absent_since.reset();
  ranks_.continued(number);
}

void ElasticSupervisor::end_if_over(Clock::time_point now) {
  const int living = running();
  if (view_.finished) {
    // A process that was ordered on a host that is still awaited is not needed any more.
    if (ranks_.alive_count() == 0) end(SIGTERM, "the job is over", now);  // also ends processes that ranks have started
    return;
  }
  if (!name_those_that_left(now)) return;
  const auto has_state = [](const Place& place) { return place.alive && place.trained; };
  if (any_trained_ && std::ranges::none_of(places_, has_state))
    return give_up("no process is left that had the state of the training", now);
  if (living == 0 && any_left_ && !failure_cause_)
    return give_up(
        "all processes have ended, and none has finished a training; the program must use anello::elastic, "
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

// Prints which processes have ended with status 0 before the training had ended. Returns false if the membership may
// still receive that one of these processes has finished.
bool ElasticSupervisor::name_those_that_left(Clock::time_point now) {
  bool all = true;
  for (Place& place : places_) {
    if (!place.left) continue;
    if (now - place.left->at < kLateWord) {
      all = false;
      continue;
    }
    actions_.print(describe(place.left->report) + " before the training had ended, so it is not replaced");
    place.left.reset();
    any_left_ = true;
  }
  return all;
}

void ElasticSupervisor::host_lost(const HostLoss& loss, Clock::time_point now) {
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

int ElasticSupervisor::startable() const {
  const auto open = std::ranges::count_if(places_, [](const Place& place) { return !place.alive && !place.closed; });
  return std::max(0, std::min({int(open), fresh_ + limits_.max_restarts - restarts_, target_ - running()}));
}

void ElasticSupervisor::require_running() const {
  if (phase_ != Phase::running || view_.finished) throw Error(ErrorCode::invalid_argument, "the job is ending");
}

// Asks the process of this place to leave. A process that has not joined yet cannot be asked, so it is killed.
void ElasticSupervisor::ask_to_leave(int number) {
  Place& place = at(number);
  place.leaves = true;
  if (place.joined) return actions_.retire(number);
  actions_.order({Order::Kind::kill_rank, 0, number});
}

std::string ElasticSupervisor::resize(int processes, Clock::time_point now) {
  look(now);
  require_running();
  const auto places = std::ranges::count_if(places_, [](const Place& one) { return one.alive || !one.closed; });
  const int most = std::min(int(places), limits_.max);
  if (processes < limits_.min || processes > most)
    throw Error(ErrorCode::invalid_argument,
                text(counted_processes(processes), processes == 1 ? " is" : " are", " not possible, only ", limits_.min,
                     " (--min-np) to ", most, " (its places, by --max-np)"));
  const int before = target_;
  aim_at(processes);
  int staying = int(std::ranges::count_if(places_, [](const Place& place) { return place.alive && !place.leaves; }));
  for (int number = job_.size - 1; number >= 0 && staying > processes; number--) {
    if (!at(number).alive || at(number).leaves) continue;
    ask_to_leave(number);
    staying--;
  }
  next_look_ = now;
  return text("the job goes from ", before, " to ", counted_processes(processes));
}

std::string ElasticSupervisor::remove(const std::vector<int>& places, Clock::time_point now) {
  look(now);
  require_running();
  int living = 0, open = 0;
  for (int number = 0; number < job_.size; number++) {
    const bool goes = std::ranges::find(places, number) != places.end();
    const bool stays = at(number).alive ? !at(number).leaves : !at(number).closed;
    living += goes && stays && at(number).alive;
    open += stays && !goes;
  }
  const int left = std::min(target_ - living, open);
  if (left < limits_.min)
    throw Error(ErrorCode::invalid_argument, text("only ", counted_processes(left), " would be left, and --min-np is ",
                                                  limits_.min, "; `anello resize` can start others first"));
  for (const int number : places) {
    if (at(number).alive && !at(number).leaves) ask_to_leave(number);
    at(number).closed = true;
  }
  target_ -= living;
  next_look_ = now;
  return text(counted_processes(living), living == 1 ? " leaves" : " leave", " at the next commit");
}

void ElasticSupervisor::fit_places(Clock::time_point now) {
  const auto open = std::ranges::count_if(places_, [](const Place& place) { return !place.closed; });
  aim_at(std::min(int(open), limits_.max));
  next_look_ = now;
}

void ElasticSupervisor::aim_at(int processes) {
  fresh_ = std::max(0, fresh_ + processes - target_);
  target_ = processes;
}

void ElasticSupervisor::grow(Clock::time_point now) {
  places_.resize(std::size_t(job_.size));
  ranks_.grow(job_.size);
  fit_places(now);
}

void ElasticSupervisor::leave_places(const HostRanks& places, Clock::time_point now) {
  for (int number = places.first; number < places.first + places.count; number++) {
    if (at(number).alive && !at(number).leaves) ask_to_leave(number);
    at(number).closed = true;
  }
  fit_places(now);
}

std::string ElasticSupervisor::status(Clock::time_point now) const {
  std::string out =
      text("job ", job_.name, ": ", running(), " of ", target_, " processes run (--min-np ", limits_.min, ", at most ",
           job_.size, "), world ", view_.generation, ", ", restarts_, " of ", limits_.max_restarts, " restarts used\n");
  for (int number = 0; number < job_.size; number++) {
    const Place& place = places_[std::size_t(number)];
    const auto rest = std::chrono::ceil<std::chrono::seconds>(place.rests_until - now);
    const std::string state = place.alive && place.leaves   ? "leaves"
                              : place.rank >= 0             ? text("rank ", place.rank)
                              : place.joined && place.alive ? "waits for a world"
                              : place.alive                 ? "starts"
                              : place.closed                ? "closed"
                              : rest.count() > 0            ? text("rests for ", rest.count(), " s")
                                                            : "free";
    out += text("process ", number, " on ", job_.host_of(number), ": ", state,
                place.alive ? text(", pid ", ranks_.pid(number)) : "",
                place.starts > 1 ? text(", start ", place.starts) : "", "\n");
  }
  return out;
}

std::string ElasticSupervisor::summary(bool with_reason) const {
  const std::string cause = culprit_ >= 0 ? text(" because of process ", culprit_) : "";
  return text(with_reason ? ": " + failure_ : cause, list_ended());
}

}  // namespace anello::launch
