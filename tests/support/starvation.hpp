// For how long without a break a thread was ready to run and had no core, or the machine stood still.
// The waits between a busy thread's turns do not add up: on a loaded machine their sum is soon longer than any limit,
// and excuses everything, though the thread runs many times a second.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/run_delay.hpp"

namespace anello {

// The longest wait that samples of all threads show: what one thread waited between two of them. If several waits lie
// between two samples, it is their sum, which is no longer than that time.
class LongestWait {
 public:
  explicit LongestWait(RunDelays first) : last_(std::move(first)) {}

  void add(const RunDelays& sample) {
    for (const auto& [thread, waited] : sample) {
      const auto before = last_.find(thread);
      longest_ = std::max(longest_, waited - (before == last_.end() ? std::chrono::nanoseconds(0) : before->second));
    }
    last_ = sample;
  }
  std::chrono::milliseconds value() const { return std::chrono::duration_cast<std::chrono::milliseconds>(longest_); }

 private:
  RunDelays last_;
  std::chrono::nanoseconds longest_{0};
};

// Whether a rank that is well could be taken for silent, if each thread that a message needs waited so long for a core.
// A heartbeat needs three: the sender's, that of the proxies and the receiver's, and an eighth of the limit lies
// between two heartbeats. `ping`, if the ranks ping each other: how long the proxies took for the messages of one. The
// ranks themselves need six turns more: the one that pings begins, and then each of the two answers the other until
// the one that is pinged has accepted.
inline bool could_be_silent(std::chrono::milliseconds longest_wait, std::chrono::milliseconds limit,
                            std::optional<std::chrono::milliseconds> ping) {
  constexpr int kHeartbeatTurns = 3, kPingTurns = 6;
  return kHeartbeatTurns * longest_wait >= limit * 7 / 8 || (ping && *ping + kPingTurns * longest_wait >= limit);
}

// By how much later than promised an error may reach all ranks: on its way from thread to thread and from rank to rank
// it needs that many turns.
inline std::chrono::milliseconds lateness(std::chrono::milliseconds longest_wait) {
  constexpr int kTurns = 10;
  return kTurns * longest_wait;
}
// The same for the error that says that a rank is silent. A rank that is late by two of the eight heartbeats of a limit
// begins to count silence anew (ring/failure/heartbeat.hpp).
inline std::chrono::milliseconds lateness(std::chrono::milliseconds longest_wait, std::chrono::milliseconds limit) {
  return lateness(longest_wait) + (longest_wait >= limit / 4 ? limit : std::chrono::milliseconds(0));
}

// Takes samples of these processes' threads on a thread of its own. Its own late wake-ups count: the machine may stand
// still.
class Starvation {
 public:
  explicit Starvation(std::vector<std::string> processes = {"self"}) : processes_(std::move(processes)) {}
  ~Starvation() {
    done_ = true;
    watcher_.join();
  }

  // So far: also what a thread has waited that runs again since the last sample.
  std::chrono::milliseconds longest() {
    const std::lock_guard lock(mutex_);
    wait_.add(sample());
    return std::max(wait_.value(), late_);
  }

 private:
  static constexpr std::chrono::milliseconds kNap{50};

  RunDelays sample() const {
    RunDelays all;
    for (const std::string& process : processes_) all.merge(run_delays(process));
    return all;
  }

  void watch() {
    for (auto before = std::chrono::steady_clock::now(); !done_;) {
      std::this_thread::sleep_for(kNap);
      const auto now = std::chrono::steady_clock::now();
      const std::lock_guard lock(mutex_);
      late_ = std::max(late_, std::chrono::duration_cast<std::chrono::milliseconds>(now - before) - kNap);
      wait_.add(sample());
      before = now;  // the machine may stand still also while a sample is taken
    }
  }

  const std::vector<std::string> processes_;
  std::atomic<bool> done_{false};
  std::mutex mutex_;
  LongestWait wait_{sample()};
  std::chrono::milliseconds late_{0};
  std::thread watcher_{[this] { watch(); }};  // the last: it uses the others
};

}  // namespace anello
