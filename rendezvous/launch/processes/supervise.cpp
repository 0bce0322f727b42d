#include "rendezvous/launch/processes/supervise.hpp"

#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <utility>

#include "rendezvous/launch/base/signals.hpp"
#include "rendezvous/launch/processes/start_problem.hpp"
#include "ring/base/rank_list.hpp"
#include "ring/base/text.hpp"

namespace anello::launch {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kReporting{1000}, kReportingLoss{500}, kAborting{1000}, kKilling{5000};
// A killed process loses its connections some time before waitpid() returns it. In this time, another rank may end with
// an error that is only a consequence.
constexpr milliseconds kSearching{200};
constexpr milliseconds kSameSignal{100};  // some programs signal a process and its group, so a signal arrives twice

constexpr int kSeldom = 3;  // multiplies the time until it is printed again which ranks still run

constexpr int kTimedOut = 124;  // the exit code of timeout(1)
constexpr int kWrongUsage = 2;

int code_of(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
std::string seconds(milliseconds time) {
  return text(double(time.count()) / 1000, " s");
}
bool was_killed(int status) {
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}
std::string describe_end(int status, const std::string& host) {
  return WIFSIGNALED(status) ? text("was killed by ", signal_text(WTERMSIG(status)), " on ", host)
                             : text("exited with status ", WEXITSTATUS(status), " on ", host);
}

}  // namespace

// A crash or a kill comes before the errors that it causes in other ranks. SIGABRT may itself be such an error.
int likely_cause(int status) {
  if (WIFSIGNALED(status)) return WTERMSIG(status) == SIGABRT ? 1 : kSurelyCause;
  return WEXITSTATUS(status) ? 1 : 0;
}

Supervisor::Supervisor(const Job& job, Actions actions)
    : job_(job),
      actions_(std::move(actions)),
      kills_before_(actions_.out_of_memory_kills()),
      ranks_(job.size),
      blame_(job.size, actions_.newest_world) {}

void Supervisor::reported(const Report& report, Clock::time_point now) {
  if (report.kind == Report::Kind::started) ranks_.started(report.rank, report.pid);
  if (report.kind == Report::Kind::not_started) not_started(report.rank, report.status, now);
  if (report.kind == Report::Kind::exited) exited(report, now);
  if (report.kind == Report::Kind::stopped) ranks_.stopped(report.rank, WSTOPSIG(report.status), now);
  if (report.kind == Report::Kind::continued) ranks_.continued(report.rank);
}

void Supervisor::not_started(int rank, int problem, Clock::time_point now) {
  if (phase_ != Phase::running) return;
  exit_code_ = exit_code_of(problem);
  actions_.print(describe_start_problem(problem, job_.command[0], job_.remote ? " on " + job_.host_of(rank) : ""));
  end(SIGTERM, text("rank ", rank, " could not be started"), now);
}

void Supervisor::exited(const Report& report, Clock::time_point now) {
  ranks_.ended(report.rank, report.status == 0);
  last_end_ = now;
  silence_told_ = {};
  if (report.status != 0 && phase_ < Phase::ending) failed_.push_back(report.rank);
  if (report.status != 0 && phase_ == Phase::running) {
    cause_ = report;
    failed_at_ = now;
    enter(Phase::searching, now + kSearching);
  }
  if (phase_ == Phase::searching) {
    if (likelihood(report) > likelihood(*cause_)) cause_ = report;
    exit_code_ = code_of(cause_->status);
    const bool clear = likely_cause(cause_->status) == kSurelyCause || ranks_.alive_count() == 0;
    if (clear && !may_be_a_lost_host(*cause_)) name_cause();
  }
  // The culprit may take longer to exit than the ranks whose failure it caused.
  const bool named = phase_ == Phase::named || phase_ == Phase::reporting;
  if (named && report.rank == culprit_ && report.status != 0) exit_code_ = code_of(report.status);
  end_if_all_ended(now);
}

void Supervisor::end_if_all_ended(Clock::time_point now) {
  if (ranks_.alive_count() > 0 || phase_ == Phase::searching || phase_ >= Phase::ending) return;
  if (phase_ == Phase::running && ranks_.ended_count() < job_.started_ranks()) return;
  end(SIGTERM, "the job is over", now);  // also ends processes that ranks have started
}

// Before the loss was noticed, ranks of other hosts may have failed as a consequence.
void Supervisor::host_lost(const HostLoss& loss, Clock::time_point now) {
  for (int rank = loss.ranks.first; rank < loss.ranks.first + loss.ranks.count; rank++) ranks_.lost(rank);
  if (!loss.why.empty()) actions_.print(loss.why);
  lost_host_ = true;
  std::erase_if(failed_, [&](int rank) { return loss.ranks.has(rank); });
  const bool explains_cause = cause_ && loss.ranks.has(cause_->rank) && may_be_a_lost_host(*cause_);
  if (phase_ > (explains_cause ? Phase::reporting : Phase::searching)) return;
  exit_code_ = 1;
  if (ranks_.alive_count() == 0) return end(SIGTERM, loss.why, now);  // no other host has a rank
  why_ = failure_ = loss.why;
  culprit_ = loss.ranks.first;
  abort(culprit_, why_);  // at once: ranks that wait for that host may not notice the loss for some time
  enter(Phase::reporting, now + kReportingLoss);
}

int Supervisor::likelihood(const Report& end) const {
  return 2 * likely_cause(end.status) + (end.status != 0 && blame_.is_on(end.rank));
}

// A scheduler that ends a host's agent may kill the agent's ranks first.
bool Supervisor::may_be_a_lost_host(const Report& end) const {
  return job_.remote && was_killed(end.status);
}

void Supervisor::name_cause() {
  const int status = cause_->status;
  why_ = text("rank ", cause_->rank, " (pid ", cause_->pid, ") ", describe_end(status, job_.host_of(cause_->rank)),
              was_killed(status) ? lack_of_memory() : "");
  culprit_ = cause_->rank;
  const world::LastWord* const word = blame_.word();
  if (word && likely_cause(status) < kSurelyCause && !blame_.is_on(cause_->rank)) {
    culprit_ = word->culprit;
    const char* const end = culprit_ >= 0 && ranks_.succeeded(culprit_) ? "; its process ended with status 0" : "";
    const std::string who = culprit_ >= 0 ? text("rank ", culprit_, " failed first: ") : "the ranks failed together: ";
    why_ = text(who, word->message, end, "; because of that ", why_);
  }
  failure_ = why_;
  actions_.print(why_);
  enter(Phase::named, failed_at_ + kSearching);
}

std::string Supervisor::lack_of_memory() const {
  if (!kills_before_ || actions_.out_of_memory_kills() <= kills_before_) return {};
  return "; meanwhile the kernel killed a process for lack of memory: start fewer ranks, or let each use less";
}

void Supervisor::signalled(int signal, Clock::time_point now) {
  interrupted_ = asked_to_end_ = true;
  if (phase_ != Phase::running) {
    if (now - signalled_at_ > kSameSignal) kill(now);
    return;
  }
  signalled_at_ = now;
  exit_code_ = 128 + signal;
  actions_.print(text(signal_text(signal), " is passed on to all ranks; they have ", seconds(job_.grace),
                      " to end; a second signal kills them"));
  end(signal, text(signal_text(signal), " was passed on to all ranks, and ", seconds(job_.grace), " have passed"), now);
}

void Supervisor::timed_out(Clock::time_point now) {
  exit_code_ = kTimedOut;
  asked_to_end_ = true;
  failure_ = text("timed out after ", double(job_.timeout->count()) / 1000, " s (--timeout)");
  actions_.print("the job is ended: " + failure_);
  end(SIGTERM, failure_, now);
}

void Supervisor::reader_gone(Clock::time_point now) {
  if (phase_ != Phase::running) return;
  exit_code_ = 128 + SIGPIPE;
  end(SIGTERM, "the reader of its output has gone", now);
}

void Supervisor::output_failed(const std::string& why, Clock::time_point now) {
  if (phase_ != Phase::running) return;
  exit_code_ = 1;
  const std::string sentence = text(why, "; the job is ended because its output would be lost");
  actions_.print(sentence);
  end(SIGTERM, sentence, now);
}

void Supervisor::keeper_gone(const std::string& how) {
  if (phase_ == Phase::searching) name_cause();
  if (phase_ == Phase::running || ranks_.alive_count() > 0) {
    keeper_was_killed_ = true;
    actions_.print(text(how.empty() ? "the process that supervises all ranks has ended" : how, "; all ranks are killed",
                        lack_of_memory()));
    if (exit_code_ == 0) exit_code_ = 128 + SIGKILL;
  }
  phase_ = Phase::over;
  deadline_.reset();
}

void Supervisor::tick(Clock::time_point now) {
  if (phase_ == Phase::running && job_limit_ && now >= *job_limit_) return timed_out(now);
  if (const auto due = leftovers_due(); due && now >= *due) return name_leftovers(now);
  if (!deadline_ || now < *deadline_) return;
  if (phase_ == Phase::searching) return name_cause(), end_if_all_ended(now);
  if (phase_ == Phase::named) {
    abort(culprit_, why_);
    return enter(Phase::reporting, failed_at_ + kReporting);
  }
  if (phase_ == Phase::reporting) return end(SIGTERM, why_, now);
  if (phase_ == Phase::ending && abort(-1, why_)) return enter(Phase::aborting, now + std::min(job_.grace, kAborting));
  if (phase_ <= Phase::aborting) return kill(now);
  actions_.print(text("still running ", seconds(kKilling), " after SIGKILL: ", ranks_.list()));
  if (exit_code_ == 0) exit_code_ = 1;
  gave_up_ = true;
  phase_ = Phase::over;
  deadline_.reset();
}

std::optional<Clock::time_point> Supervisor::next_tick() const {
  if (phase_ != Phase::running) return deadline_;
  const auto due = leftovers_due();
  return due && job_limit_ ? std::min(*due, *job_limit_) : due ? due : job_limit_;
}

// Returns when to report ranks that still run after all others have ended. If one rank of a world is silent, the ranks
// report that themselves; but not if all of them are silent, or after they have left the world.
std::optional<Clock::time_point> Supervisor::leftovers_due() const {
  if (phase_ != Phase::running || job_.silence_limit.count() == 0 || ranks_.ended_count() == 0 ||
      ranks_.alive_count() == 0)
    return {};
  if (ranks_.all_are_stopped()) return ranks_.last_stop(last_end_) + job_.silence_limit;
  return ranks_.alive_count() <= ranks_.ended_count() ? std::optional(last_end_ + silence_told_ + job_.silence_limit)
                                                      : std::nullopt;
}

// If all remaining ranks are stopped, ends the job, because they cannot end by themselves. If some of them run, only
// prints which, because they may have reasons to take long.
void Supervisor::name_leftovers(Clock::time_point now) {
  const std::vector<int> left = ranks_.alive();
  const int first = left.front();
  const std::string who = text(rank_list(left), " (", left.size() == 1 ? "" : "first ", "pid ", ranks_.pid(first),
                               " on ", job_.host_of(first), ")");
  const std::string time = seconds(std::chrono::round<std::chrono::duration<long, std::deci>>(now - last_end_));
  if (!ranks_.all_are_stopped()) {
    silence_told_ = kSeldom * (now - last_end_);
    return actions_.print(text(who, left.size() == 1 ? " still runs" : " still run", ", ", time,
                               " after the last of the others has ended"));
  }
  exit_code_ = 1;
  left_stopped_ = true;
  culprit_ = first;
  failure_ = text(who, left.size() == 1 ? " is stopped by " : " are stopped by ", ranks_.stop_signals(),
                  ", and all others have ended; nothing ", "has continued ", left.size() == 1 ? "it" : "them", " for ",
                  seconds(job_.silence_limit), " (ANELLO_SILENCE_LIMIT)");
  actions_.print(failure_);
  end(SIGTERM, failure_, now);
}

void Supervisor::enter(Phase phase, Clock::time_point deadline) {
  phase_ = phase;
  deadline_ = deadline;
}

void Supervisor::end(int signal, const std::string& why, Clock::time_point now) {
  why_ = why;
  ended_ = ranks_.alive();
  actions_.order({Order::Kind::signal, signal});
  enter(Phase::ending, now + job_.grace);
}

// Tries only once, because a second attempt would not succeed either.
bool Supervisor::abort(int culprit, const std::string& why) {
  return ranks_.alive_count() > 0 && !std::exchange(abort_sent_, true) && actions_.abort(culprit, why);
}

void Supervisor::kill(Clock::time_point now) {
  if (phase_ >= Phase::killing) return;
  if (phase_ == Phase::searching) name_cause();
  if (phase_ >= Phase::ending && ranks_.alive_count() > 0)
    actions_.print(text("still running, so killed: ", ranks_.list()));
  actions_.order({Order::Kind::kill});
  enter(Phase::killing, now + kKilling);
}

// A lost host counts only if a rank has started. (The start of a rank may be reported after the loss of another host.)
bool Supervisor::may_pass() const {
  const bool lost = lost_host_ && (ranks_.any_started() || job_.restart > 0);
  if ((!cause_ && !lost && !left_stopped_) || interrupted_ || gave_up_ || keeper_was_killed_) return false;
  return exit_code_ != kWrongUsage && exit_code_ != kNotExecutable && exit_code_ != kNotFound;
}

std::string Supervisor::summary(bool with_reason) const {
  std::vector<int> followed;
  for (const int rank : failed_)
    if (rank != culprit_) followed.push_back(rank);
  std::ranges::sort(followed);
  std::string out = with_reason ? ": " + failure_
                    : cause_ && !lost_host_
                        ? text(" because of ", culprit_ < 0 ? "what the ranks did" : text("rank ", culprit_))
                        : "";
  if (!followed.empty()) out += text("; ", rank_list(followed), " failed after that");
  if (!ended_.empty()) out += text("; the launcher ended ", rank_list(ended_));
  return out;
}

}  // namespace anello::launch
