#include "rendezvous/launch/supervise.hpp"

#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <utility>

#include "rendezvous/launch/signals.hpp"
#include "ring/base/rank_list.hpp"
#include "ring/base/text.hpp"

namespace anello::launch {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kReporting{1000}, kReportingLoss{500}, kAborting{1000}, kKilling{5000};
// A killed process loses its connections some time before waitpid() returns it. Meanwhile another rank may have ended
// with an error that is only a consequence.
constexpr milliseconds kSearching{200};
constexpr milliseconds kSameSignal{100};  // some programs signal a process and its group, so a signal arrives twice

constexpr int kTimedOut = 124;  // as timeout(1)
constexpr int kWrongUsage = 2, kNotExecutable = 126, kNotFound = 127;

int code_of(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
std::string seconds(milliseconds time) {
  return text(double(time.count()) / 1000, " s");
}

}  // namespace

// A crash or a kill precedes the errors that it causes in other ranks; SIGABRT may be such an error.
int likely_cause(int status) {
  if (WIFSIGNALED(status)) return WTERMSIG(status) == SIGABRT ? 1 : kSurelyCause;
  return WEXITSTATUS(status) ? 1 : 0;
}

Supervisor::Supervisor(const Job& job, Actions actions)
    : job_(job),
      actions_(std::move(actions)),
      kills_before_(actions_.out_of_memory_kills()),
      alive_(std::size_t(job.size)),
      succeeded_(std::size_t(job.size)) {}

void Supervisor::reported(const Report& report, Clock::time_point now) {
  if (report.kind == Report::Kind::started) started(report.rank);
  if (report.kind == Report::Kind::not_started) not_started(report.rank, report.status, now);
  if (report.kind == Report::Kind::exited) exited(report, now);
}

void Supervisor::started(int rank) {
  any_started_ = true;
  alive_[std::size_t(rank)] = true;
  alive_count_++;
}

void Supervisor::not_started(int rank, int error, Clock::time_point now) {
  if (phase_ != Phase::running) return;
  const std::string& program = job_.command[0];
  const bool by_path = program.find('/') != std::string::npos;
  const std::string where = job_.remote ? " on " + job_.host_of(rank) : "";
  exit_code_ = error == ENOENT || error == ENOTDIR ? kNotFound : kNotExecutable;
  if (exit_code_ == kNotFound && !by_path)
    actions_.print(text("program not found", where, ": '", program,
                        "' is not in PATH; for a program in this folder write ./", program));
  else if (exit_code_ == kNotFound)
    actions_.print(
        text("program not found", where, ": '", program, "' or its interpreter does not exist; check the path"));
  else if (error == EACCES)
    actions_.print(text("'", program, "' is not an executable file", where, "; to make it one, run chmod +x"));
  else
    actions_.print(text("rank ", rank, where, ": '", program, "' could not be started: ", std::strerror(error)));
  end(SIGTERM, text("rank ", rank, " could not be started"), now);
}

void Supervisor::exited(const Report& report, Clock::time_point now) {
  alive_[std::size_t(report.rank)] = false;
  alive_count_--;
  ended_count_++;
  succeeded_[std::size_t(report.rank)] = report.status == 0;
  if (report.status != 0 && phase_ < Phase::ending) failed_.push_back(report.rank);
  if (report.status != 0 && phase_ == Phase::running) {
    cause_ = report;
    failed_at_ = now;
    enter(Phase::searching, now + kSearching);
  }
  if (phase_ == Phase::searching) {
    if (likelihood(report) > likelihood(*cause_)) cause_ = report;
    exit_code_ = code_of(cause_->status);
    if (likely_cause(cause_->status) == kSurelyCause || alive_count_ == 0) name_cause();
  }
  // The culprit may take longer to exit than the ranks that it made fail.
  const bool named = phase_ == Phase::named || phase_ == Phase::reporting;
  if (named && report.rank == culprit_ && report.status != 0) exit_code_ = code_of(report.status);
  const bool all_ended = alive_count_ == 0 && (named || ended_count_ == job_.started_ranks());
  if (all_ended && phase_ < Phase::ending) end(SIGTERM, "the job is over", now);  // for processes that ranks started
}

void Supervisor::received(const world::LastWord& word) {
  if (word.culprit < 0 || word.culprit >= job_.size) return;
  if (!word_ || word.generation > word_->generation) word_ = word;
}

// Null if the ranks have recovered from the failure that they reported: they have joined another world since.
const world::LastWord* Supervisor::blame() const {
  return word_ && word_->generation >= actions_.newest_world() ? &*word_ : nullptr;
}

// Ranks of other hosts may have failed because of it before this was known.
void Supervisor::host_lost(const HostLoss& loss, Clock::time_point now) {
  for (int rank = loss.ranks.first; rank < loss.ranks.first + loss.ranks.count; rank++) {
    if (!alive_[std::size_t(rank)]) continue;
    alive_[std::size_t(rank)] = false;
    alive_count_--;
    ended_count_++;
  }
  if (!loss.why.empty()) actions_.print(loss.why);
  lost_host_ = true;
  if (phase_ > Phase::searching) return;
  exit_code_ = 1;
  if (alive_count_ == 0) return end(SIGTERM, loss.why, now);  // no other host has a rank
  why_ = failure_ = loss.why;
  culprit_ = loss.ranks.first;
  abort(culprit_, why_);  // at once: ranks that wait for that host may not know it for some time
  enter(Phase::reporting, now + kReportingLoss);
}

int Supervisor::likelihood(const Report& end) const {
  return 2 * likely_cause(end.status) + (end.status != 0 && is_culprit(end.rank));
}

void Supervisor::name_cause() {
  const int status = cause_->status;
  why_ = text("rank ", cause_->rank, " (pid ", cause_->pid, ") ", describe_end(*cause_));
  culprit_ = cause_->rank;
  const world::LastWord* const word = blame();
  if (word && likely_cause(status) < kSurelyCause && !is_culprit(cause_->rank)) {
    culprit_ = word->culprit;
    const char* const end = succeeded_[std::size_t(culprit_)] ? "; its process ended with status 0" : "";
    why_ = text("rank ", culprit_, " failed first: ", word->message, end, "; because of that ", why_);
  }
  failure_ = why_;
  actions_.print(why_);
  enter(Phase::named, failed_at_ + kSearching);
}

std::string Supervisor::describe_end(const Report& end) const {
  const int status = end.status;
  const std::string& host = job_.host_of(end.rank);
  if (!WIFSIGNALED(status)) return text("exited with status ", WEXITSTATUS(status), " on ", host);
  const std::string how = text("was killed by ", signal_text(WTERMSIG(status)), " on ", host);
  if (WTERMSIG(status) != SIGKILL || !kills_before_ || actions_.out_of_memory_kills() <= kills_before_) return how;
  return how + "; meanwhile the kernel killed a process for lack of memory: start fewer ranks, or let each use less";
}

void Supervisor::signalled(int signal, Clock::time_point now) {
  interrupted_ = true;
  if (phase_ != Phase::running) {
    if (now - signalled_at_ > kSameSignal) kill(now);
    return;
  }
  signalled_at_ = now;
  exit_code_ = 128 + signal;
  actions_.print(text(signal_text(signal), " is passed on to all ranks; they have ", seconds(job_.grace), " to end"));
  end(signal, text(signal_text(signal), " was passed on to all ranks, and ", seconds(job_.grace), " have passed"), now);
}

void Supervisor::timed_out(Clock::time_point now) {
  exit_code_ = kTimedOut;
  failure_ = text("its time is over (--timeout ", double(job_.timeout->count()) / 1000, ")");
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

void Supervisor::keeper_gone() {
  if (phase_ == Phase::searching) name_cause();
  if (phase_ == Phase::running || alive_count_ > 0) {
    keeper_was_killed_ = true;
    actions_.print("the keeper process was ended, so all ranks are killed; to end a job, interrupt `anello run`");
    if (exit_code_ == 0) exit_code_ = 128 + SIGKILL;
  }
  phase_ = Phase::over;
  deadline_.reset();
}

void Supervisor::tick(Clock::time_point now) {
  if (phase_ == Phase::running && job_limit_ && now >= *job_limit_) return timed_out(now);
  if (!deadline_ || now < *deadline_) return;
  if (phase_ == Phase::searching) return name_cause();
  if (phase_ == Phase::named) {
    abort(culprit_, why_);
    return enter(Phase::reporting, failed_at_ + kReporting);
  }
  if (phase_ == Phase::reporting) return end(SIGTERM, why_, now);
  if (phase_ == Phase::ending && abort(-1, why_)) return enter(Phase::aborting, now + std::min(job_.grace, kAborting));
  if (phase_ <= Phase::aborting) return kill(now);
  actions_.print(text("still running ", seconds(kKilling), " after SIGKILL: ", ranks_left()));
  if (exit_code_ == 0) exit_code_ = 1;
  gave_up_ = true;
  phase_ = Phase::over;
  deadline_.reset();
}

void Supervisor::enter(Phase phase, Clock::time_point deadline) {
  phase_ = phase;
  deadline_ = deadline;
}

void Supervisor::end(int signal, const std::string& why, Clock::time_point now) {
  why_ = why;
  ended_ = ranks_alive();
  actions_.order({Order::Kind::signal, signal});
  enter(Phase::ending, now + job_.grace);
}

// Only once: a second attempt would not succeed either.
bool Supervisor::abort(int culprit, const std::string& why) {
  return alive_count_ > 0 && !std::exchange(abort_sent_, true) && actions_.abort(culprit, why);
}

void Supervisor::kill(Clock::time_point now) {
  if (phase_ >= Phase::killing) return;
  if (phase_ == Phase::searching) name_cause();
  if (phase_ >= Phase::ending && alive_count_ > 0) actions_.print(text("still running, so killed: ", ranks_left()));
  actions_.order({Order::Kind::kill});
  enter(Phase::killing, now + kKilling);
}

// That a rank has started may be known only after the loss of another host.
bool Supervisor::may_pass() const {
  const bool lost = lost_host_ && (any_started_ || job_.restart > 0);
  if ((!cause_ && !lost) || interrupted_ || gave_up_ || keeper_was_killed_) return false;
  return exit_code_ != kWrongUsage && exit_code_ != kNotExecutable && exit_code_ != kNotFound;
}

std::string Supervisor::summary(bool with_reason) const {
  std::vector<int> followed;
  for (const int rank : failed_)
    if (rank != culprit_) followed.push_back(rank);
  std::ranges::sort(followed);
  std::string out = with_reason ? ": " + failure_ : cause_ && !lost_host_ ? text(" because of rank ", culprit_) : "";
  if (!followed.empty()) out += text("; ", rank_list(followed), " failed after that");
  if (!ended_.empty()) out += text("; the launcher ended ", rank_list(ended_));
  return out;
}

std::vector<int> Supervisor::ranks_alive() const {
  std::vector<int> out;
  for (std::size_t rank = 0; rank < alive_.size(); rank++)
    if (alive_[rank]) out.push_back(int(rank));
  return out;
}

std::string Supervisor::ranks_left() const {
  return alive_count_ == 0 ? "processes that ranks started" : rank_list(ranks_alive());
}

}  // namespace anello::launch
