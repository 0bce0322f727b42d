// Watches whether the machine stands still, as a virtual one does while its host pauses it: then no process can keep
// what it promised, and that time does not count. A thread that naps, and adds up by how much naps were too long.
#pragma once
#include <atomic>
#include <chrono>
#include <thread>

namespace anello::faults {

class Standstill {
 public:
  ~Standstill() {
    done_ = true;
    watcher_.join();
  }
  // So far. A busy machine's late wake-ups are too short to count.
  std::chrono::milliseconds total() const { return std::chrono::milliseconds(total_ms_); }

 private:
  static constexpr std::chrono::milliseconds kNap{20}, kMin{250};

  void watch() {
    for (auto before = std::chrono::steady_clock::now(); !done_;) {
      std::this_thread::sleep_for(kNap);
      const auto now = std::chrono::steady_clock::now();
      const auto late = std::chrono::duration_cast<std::chrono::milliseconds>(now - before) - kNap;
      if (late >= kMin) total_ms_ += late.count();
      before = now;
    }
  }

  std::atomic<bool> done_{false};
  std::atomic<std::int64_t> total_ms_{0};
  std::thread watcher_{[this] { watch(); }};  // the last: it uses the others
};

}  // namespace anello::faults
