#include "rendezvous/launch/processes/fixed_supervisor.hpp"

#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "ring/base/rank_list.hpp"
#include "ring/base/text.hpp"

namespace anello::launch {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kReporting{1000}, kReportingLoss{500};
// A killed process loses its connections some time before waitpid() returns it. In this time, another rank may end with
// an error that is only a consequence of the kill.
constexpr milliseconds kSearching{200};

// If ranks still run some time after the last exit, a message names them. The next such message comes when this
// multiple of that time has passed since the last exit.
constexpr int kSeldom = 3;

bool was_killed(int status) {
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

}  // namespace

FixedSupervisor::FixedSupervisor(const Job& job, Actions actions)
    : Supervisor(job, std::move(actions)), blame_(job.size, actions_.newest_world) {}

void FixedSupervisor::exited(const Report& report, Clock::time_point now) {
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
    exit_code_ = exit_code_of_status(cause_->status);
    const bool clear = likely_cause(cause_->status) == kSurelyCause || ranks_.alive_count() == 0;
    if (clear && !may_be_a_lost_host(*cause_)) name_cause();
  }
  // The culprit may take longer to exit than the ranks whose failure it caused.
  const bool named = phase_ == Phase::named || phase_ == Phase::reporting;
  if (named && report.rank == culprit_ && report.status != 0) exit_code_ = exit_code_of_status(report.status);
  end_if_all_ended(now);
}

void FixedSupervisor::end_if_all_ended(Clock::time_point now) {
  if (ranks_.alive_count() > 0 || phase_ == Phase::searching || phase_ >= Phase::ending) return;
  if (phase_ == Phase::running && ranks_.ended_count() < job_.started_ranks()) return;
  end(SIGTERM, "the job is over", now);  // also ends processes that the ranks have started
}

// The loss may explain failures that were reported before it, because ranks of other hosts may have failed as a
// consequence before the loss was noticed.
void FixedSupervisor::host_lost(const HostLoss& loss, Clock::time_point now) {
  for (int rank = loss.ranks.first; rank < loss.ranks.first + loss.ranks.count; rank++) ranks_.lost(rank);
  if (!loss.why.empty()) actions_.print(loss.why);
  lost_host_ = true;
  std::erase_if(failed_, [&](int rank) { return loss.ranks.has(rank); });
  const bool explains_cause = cause_ && loss.ranks.has(cause_->rank) && may_be_a_lost_host(*cause_);
  if (phase_ > (explains_cause ? Phase::reporting : Phase::searching)) return;
  exit_code_ = 1;
  if (ranks_.alive_count() == 0) return end(SIGTERM, loss.why, now);  // no other host has a rank that runs
  why_ = failure_ = loss.why;
  culprit_ = loss.ranks.first;
  abort(culprit_, why_);  // called at once, because ranks that wait for that host may notice the loss only later
  enter(Phase::reporting, now + kReportingLoss);
}

int FixedSupervisor::likelihood(const Report& end) const {
  return 2 * likely_cause(end.status) + (end.status != 0 && blame_.is_on(end.rank));
}

// A scheduler that ends a host's agent may kill the agent's ranks first.
bool FixedSupervisor::may_be_a_lost_host(const Report& end) const {
  return job_.remote && was_killed(end.status);
}

void FixedSupervisor::name_cause() {
  why_ = describe(*cause_);
  culprit_ = cause_->rank;
  const world::LastWord* const word = blame_.word();
  if (word && likely_cause(cause_->status) < kSurelyCause && !blame_.is_on(cause_->rank)) {
    culprit_ = word->culprit;
    const char* const end = culprit_ >= 0 && ranks_.succeeded(culprit_) ? "; its process ended with status 0" : "";
    const std::string who = culprit_ >= 0 ? text("rank ", culprit_, " failed first: ") : "the ranks failed together: ";
    why_ = text(who, word->message, end, "; because of that ", why_);
  }
  failure_ = why_;
  actions_.print(why_);
  enter(Phase::named, failed_at_ + kSearching);
}

std::optional<Clock::time_point> FixedSupervisor::wakes_at() const {
  return phase_ == Phase::running ? leftovers_due() : deadline_;
}

void FixedSupervisor::wake(Clock::time_point now) {
  if (phase_ == Phase::running) return name_leftovers(now);
  if (phase_ == Phase::searching) return name_cause(), end_if_all_ended(now);
  if (phase_ == Phase::reporting) return end(SIGTERM, why_, now);
  abort(culprit_, why_);
  enter(Phase::reporting, failed_at_ + kReporting);
}

// Returns when to report ranks that still run after all others have ended. If one rank of a world is silent, the other
// ranks report it. But no rank reports ranks that have left the world, or a world in which all ranks are silent.
std::optional<Clock::time_point> FixedSupervisor::leftovers_due() const {
  if (job_.silence_limit.count() == 0 || ranks_.ended_count() == 0 || ranks_.alive_count() == 0) return {};
  if (ranks_.all_are_stopped()) return ranks_.last_stop(last_end_) + job_.silence_limit;
  return ranks_.alive_count() <= ranks_.ended_count() ? std::optional(last_end_ + silence_told_ + job_.silence_limit)
                                                      : std::nullopt;
}

// If all ranks that are left are stopped, ends the job, because they cannot end by themselves. If some of them run,
// only prints which ranks are left, because they may have reasons to take long.
void FixedSupervisor::name_leftovers(Clock::time_point now) {
  const std::vector<int> left = ranks_.alive();
  const int first = left.front();
  const std::string who = text(rank_list(left), " (", left.size() == 1 ? "" : "first ", "pid ", ranks_.pid(first),
                               " on ", job_.host_of(first), ")");
  const std::string time = in_seconds(std::chrono::round<std::chrono::duration<long, std::deci>>(now - last_end_));
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
                  in_seconds(job_.silence_limit), " (ANELLO_SILENCE_LIMIT)");
  actions_.print(failure_);
  end(SIGTERM, failure_, now);
}

// The loss of a host counts as a failure that may pass only if a rank has been started, in this attempt or an earlier
// one. (The start of a rank may be reported after the loss of another host.)
bool FixedSupervisor::failure_may_pass() const {
  return cause_ || left_stopped_ || (lost_host_ && (ranks_.any_started() || job_.restart > 0));
}

std::string FixedSupervisor::summary(bool with_reason) const {
  std::vector<int> followed;
  for (const int rank : failed_)
    if (rank != culprit_) followed.push_back(rank);
  std::ranges::sort(followed);
  std::string out = with_reason ? ": " + failure_
                    : cause_ && !lost_host_
                        ? text(" because of ", culprit_ < 0 ? "what the ranks did" : text("rank ", culprit_))
                        : "";
  if (!followed.empty()) out += text("; ", rank_list(followed), " failed after that");
  return out + list_ended();
}

}  // namespace anello::launch
