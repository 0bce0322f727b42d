#include "rendezvous/launch/processes/supervisor.hpp"

#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "rendezvous/launch/base/signals.hpp"
#include "rendezvous/launch/processes/start_problem.hpp"
#include "ring/base/rank_list.hpp"
#include "ring/base/text.hpp"

namespace anello::launch {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kAborting{3000}, kKilling{5000};
constexpr milliseconds kSameSignal{100};  // some programs signal a process and its group, so a signal arrives twice

constexpr int kTimedOut = 124;  // the exit code of timeout(1)

}  // namespace

int exit_code_of_status(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
std::string in_seconds(milliseconds time) {
  return text(double(time.count()) / 1000, " s");
}

// A crash or a kill is more likely the cause than an error exit, because a crash causes errors in other ranks. SIGABRT
// is as likely as an error exit, because a program may abort as a consequence of another rank's failure.
int likely_cause(int status) {
  if (WIFSIGNALED(status)) return WTERMSIG(status) == SIGABRT ? 1 : kSurelyCause;
  return WEXITSTATUS(status) ? 1 : 0;
}

Supervisor::Supervisor(const Job& job, Actions actions)
    : job_(job), actions_(std::move(actions)), ranks_(job.size), kills_before_(actions_.out_of_memory_kills()) {}

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

std::string Supervisor::describe(const Report& end) const {
  const int status = end.status;
  const std::string how = WIFSIGNALED(status) ? text("was killed by ", signal_text(WTERMSIG(status)))
                                              : text("exited with status ", WEXITSTATUS(status));
  const bool was_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  return text(job_.elastic ? "process " : "rank ", end.rank, " (pid ", end.pid, ") ", how, " on ",
              job_.host_of(end.rank), was_killed ? lack_of_memory() : "");
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
  actions_.print(text(signal_text(signal), " is passed on to all ranks; they have ", in_seconds(job_.grace),
                      " to end; a second signal kills them"));
  end(signal, text(signal_text(signal), " was passed on to all ranks, and ", in_seconds(job_.grace), " have passed"),
      now);
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
  if (phase_ < Phase::ending) {
    if (const auto due = wakes_at(); due && now >= *due) wake(now);
    return;
  }
  if (!deadline_ || now < *deadline_) return;
  if (phase_ == Phase::ending && abort(-1, why_)) return enter(Phase::aborting, now + std::min(job_.grace, kAborting));
  if (phase_ <= Phase::aborting) return kill(now);
  actions_.print(text("still running ", in_seconds(kKilling), " after SIGKILL: ", ranks_.list()));
  if (exit_code_ == 0) exit_code_ = 1;
  gave_up_ = true;
  phase_ = Phase::over;
  deadline_.reset();
}

std::optional<Clock::time_point> Supervisor::next_tick() const {
  if (phase_ >= Phase::ending) return deadline_;
  const auto due = wakes_at();
  if (phase_ != Phase::running || !job_limit_) return due;
  return due ? std::min(*due, *job_limit_) : job_limit_;
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

// Aborts the world at the first call. Later calls do nothing, because a second attempt would not succeed either.
// Returns false if there is nothing to abort.
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

bool Supervisor::may_pass() const {
  if (!failure_may_pass() || interrupted_ || gave_up_ || keeper_was_killed_) return false;
  return !is_wrong_usage(exit_code_);
}

std::string Supervisor::list_ended() const {
  return ended_.empty() ? "" : text("; the launcher ended ", rank_list(ended_));
}

}  // namespace anello::launch
