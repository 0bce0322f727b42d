// Measures the longest time for which a thread was ready to run but had no core, or for which the machine stood still.
// The waits between the turns of a busy thread are not added up. On a busy machine, their sum soon exceeds any limit,
// although the thread runs many times a second; so the sum would excuse every failure.
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

// Takes samples of all threads. The result is the longest wait of one thread between two samples. If a thread waits
// several times between two samples, its waits are added up; their sum is at most the time between the samples.
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

// Assumes that each thread that a message needs waits for a core for `longest_wait`. True if a healthy rank could then
// be considered silent. A heartbeat needs three threads: one of the sender, one of the proxies and one of the receiver.
// Two heartbeats are an eighth of the limit apart. `ping`: if the ranks ping each other, the proxies' time for the
// messages of one ping. The ranks themselves need six further turns: the pinging rank begins, and then both ranks
// answer each other until the pinged rank has accepted.
inline bool could_be_silent(std::chrono::milliseconds longest_wait, std::chrono::milliseconds limit,
                            std::optional<std::chrono::milliseconds> ping) {
  constexpr int kHeartbeatTurns = 3, kPingTurns = 6;
  return kHeartbeatTurns * longest_wait >= limit * 7 / 8 || (ping && *ping + kPingTurns * longest_wait >= limit);
}

// How much later than specified an error may reach all ranks: on its way from thread to thread and from rank to rank,
// the error needs kTurns turns.
inline std::chrono::milliseconds lateness(std::chrono::milliseconds longest_wait) {
  constexpr int kTurns = 10;
  return kTurns * longest_wait;
}
// The lateness of the error that says that a rank is silent. If a rank is late by two of the eight heartbeats of a
// limit, the count of its silence starts again (ring/failure/heartbeat.hpp).
inline std::chrono::milliseconds lateness(std::chrono::milliseconds longest_wait, std::chrono::milliseconds limit) {
  return lateness(longest_wait) + (longest_wait >= limit / 4 ? limit : std::chrono::milliseconds(0));
}

// Takes samples of these processes' threads in its own thread. If the sampling thread wakes up late, its delay counts
// too, because the machine may have stood still.
class Starvation {
 public:
  explicit Starvation(std::vector<std::string> processes = {"self"}) : processes_(std::move(processes)) {}
  ~Starvation() {
    done_ = true;
    watcher_.join();
  }

  // The longest wait so far, including the wait of a thread that has run again since the last sample.
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
      before = now;  // the machine may also stand still while a sample is taken
    }
  }

  const std::vector<std::string> processes_;
  std::atomic<bool> done_{false};
  std::mutex mutex_;
  LongestWait wait_{sample()};
  std::chrono::milliseconds late_{0};
  std::thread watcher_{[this] { watch(); }};  // declared last: it uses the other members
};

}  // namespace anello
