#include "rendezvous/launch/supervise.hpp"

#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <utility>

#include "rendezvous/launch/signals.hpp"
#include "ring/base/text.hpp"

namespace anello::launch {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kReporting{1000}, kAborting{1000}, kKilling{5000};
// A killed process loses its connections some time before waitpid() returns it. Meanwhile another rank may have ended
// with an error that is only a consequence.
constexpr milliseconds kSearching{200};
constexpr milliseconds kSameSignal{100};  // some programs signal a process and its group, so a signal arrives twice

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

Supervisor::Supervisor(const Job& job, std::string host, Actions actions)
    : job_(job),
      host_(std::move(host)),
      actions_(std::move(actions)),
      kills_before_(actions_.out_of_memory_kills()),
      alive_(std::size_t(job.size)) {}

void Supervisor::reported(const Report& report, Clock::time_point now) {
  if (report.kind == Report::Kind::started) started(report.rank);
  if (report.kind == Report::Kind::not_started) not_started(report.rank, report.status, now);
  if (report.kind == Report::Kind::exited) exited(report, now);
}

void Supervisor::started(int rank) {
  alive_[std::size_t(rank)] = true;
  alive_count_++;
}

void Supervisor::not_started(int rank, int error, Clock::time_point now) {
  if (phase_ != Phase::running) return;
  const std::string& program = job_.command[0];
  const bool by_path = program.find('/') != std::string::npos;
  exit_code_ = error == ENOENT || error == ENOTDIR ? 127 : 126;
  if (exit_code_ == 127 && !by_path)
    actions_.print(
        text("program not found: '", program, "' is not in PATH; for a program in this folder write ./", program));
  else if (exit_code_ == 127)
    actions_.print(text("program not found: '", program, "' or its interpreter does not exist; check the path"));
  else if (error == EACCES)
    actions_.print(text("'", program, "' is not an executable file; to make it one, run chmod +x"));
  else
    actions_.print(text("rank ", rank, ": '", program, "' could not be started: ", std::strerror(error)));
  end(SIGTERM, text("rank ", rank, " could not be started"), now);
}

void Supervisor::exited(const Report& report, Clock::time_point now) {
  alive_[std::size_t(report.rank)] = false;
  alive_count_--;
  ended_count_++;
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
  const bool all_ended = alive_count_ == 0 && (named || ended_count_ == job_.size);
  if (all_ended && phase_ < Phase::ending) end(SIGTERM, "the job is over", now);  // for processes that ranks started
}

void Supervisor::received(const world::LastWord& word) {
  if (!word_ && word.culprit >= 0 && word.culprit < job_.size) word_ = word;
}

int Supervisor::likelihood(const Report& end) const {
  return 2 * likely_cause(end.status) + (end.status != 0 && is_culprit(end.rank));
}

void Supervisor::name_cause() {
  const int status = cause_->status;
  why_ = text("rank ", cause_->rank, " (pid ", cause_->pid, ") ", describe_end(status));
  culprit_ = cause_->rank;
  if (word_ && likely_cause(status) < kSurelyCause && !is_culprit(cause_->rank)) {
    culprit_ = word_->culprit;
    why_ = text("rank ", culprit_, " failed first: ", word_->message, "; because of that ", why_);
  }
  actions_.print(why_);
  enter(Phase::named, failed_at_ + kSearching);
}

std::string Supervisor::describe_end(int status) const {
  if (!WIFSIGNALED(status)) return text("exited with status ", WEXITSTATUS(status), " on ", host_);
  const std::string how = text("was killed by ", signal_text(WTERMSIG(status)), " on ", host_);
  if (WTERMSIG(status) != SIGKILL || !kills_before_ || actions_.out_of_memory_kills() <= kills_before_) return how;
  return how + "; meanwhile the kernel killed a process for lack of memory: start fewer ranks, or let each use less";
}

void Supervisor::signalled(int signal, Clock::time_point now) {
  if (phase_ != Phase::running) {
    if (now - signalled_at_ > kSameSignal) kill(now);
    return;
  }
  signalled_at_ = now;
  exit_code_ = 128 + signal;
  actions_.print(text(signal_text(signal), " is passed on to all ranks; they have ", seconds(job_.grace), " to end"));
  end(signal, text(signal_text(signal), " was passed on to all ranks, and ", seconds(job_.grace), " have passed"), now);
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

std::string Supervisor::ranks_left() const {
  if (alive_count_ == 0) return "processes that ranks started";
  std::string out = alive_count_ == 1 ? "rank" : "ranks";
  for (std::size_t rank = 0; rank < alive_.size(); rank++)
    if (alive_[rank]) out += text(" ", rank);
  return out;
}

}  // namespace anello::launch
