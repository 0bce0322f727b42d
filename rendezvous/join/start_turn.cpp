#include "rendezvous/join/start_turn.hpp"

#include <anello/error.hpp>
#include <condition_variable>
#include <set>

#include "rendezvous/protocol/interruption.hpp"
#include "rendezvous/protocol/retry.hpp"
#include "ring/base/mutex.hpp"
#include "ring/base/text.hpp"

namespace anello::rendezvous {
namespace {

struct Starts {
  Mutex mutex;
  std::condition_variable changed;
  std::set<std::string> jobs ANELLO_GUARDED_BY(mutex);  // jobs that are starting now
};

Starts& starts() {
  static auto* const all = new Starts;  // never destroyed, because a thread may wait for a turn while the process ends
  return *all;
}

}  // namespace

StartTurn::StartTurn(std::string job, std::chrono::steady_clock::time_point deadline) : job_(std::move(job)) {
  Starts& all = starts();
  for (;;) {
    {
      MutexLock lock(all.mutex);
      const auto end = std::chrono::steady_clock::now() + Interruption::slice(time_left(deadline));
      const auto is_free = [&]() ANELLO_REQUIRES(all.mutex) { return !all.jobs.contains(job_); };
      if (all.changed.wait_until(lock, end, is_free)) {
        all.jobs.insert(job_);
        return;
      }
    }
    Interruption::check();
    if (time_left(deadline).count() == 0)
      throw Error(ErrorCode::timed_out,
                  "another thread of this process has been starting a world of the same job for the whole "
                  "ANELLO_START_TIMEOUT; start one at a time, or give each an ANELLO_JOB of its own");
  }
}

StartTurn::~StartTurn() {
  Starts& all = starts();
  const MutexLock lock(all.mutex);
  all.jobs.erase(job_);
  all.changed.notify_all();
}

}  // namespace anello::rendezvous
