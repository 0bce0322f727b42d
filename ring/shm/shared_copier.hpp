// Copies bytes into memory from which another core will read them.
//
// The other core has mostly read this memory before, so its cache shares the lines, and an ordinary store first takes
// the line away from it. This is fast if the cores have a common cache, and slow if they have none: on an AMD EPYC
// (family 25, model 17) 9 GB/s and 2.3 GB/s. A non-temporal store writes past the caches and does not wait for the
// line: 29 GB/s. But then the reader fetches the bytes from memory, with 10 GB/s instead of 37 GB/s if there is a
// common cache. So a copier measures ordinary stores from time to time, and takes non-temporal ones while these are
// slow.
#pragma once
#include <chrono>
#include <cstddef>

namespace anello::shm {

// Chooses between ordinary and non-temporal stores.
class StoreChoice {
 public:
  // True if the next bytes should be copied with ordinary stores, and measured.
  bool measures() { return --unmeasured_ < 0; }
  void measured(std::size_t bytes, std::chrono::nanoseconds took);
  bool non_temporal() const { return slow_ >= kEnoughSlow; }

 private:
  // Ordinary stores are measured often, so that about ten slow copies are enough to change. While they are slow, they
  // are measured seldom, because each measurement is a slow copy.
  static constexpr int kCopiesPerMeasurement = 8, kCopiesPerTest = 256;
  static constexpr int kEnoughSlow = 3;  // one or two may be slow because another process took the core

  int unmeasured_ = kCopiesPerMeasurement;  // the first copies are slow because of page faults
  int slow_ = 0;
};

class SharedCopier {
 public:
  using Now = std::chrono::steady_clock::time_point (*)();
  explicit SharedCopier(Now now = std::chrono::steady_clock::now) : now_(now) {}  // `now`: replaced in tests

  // All bytes are visible to a thread that sees a later store of this thread.
  void copy(std::byte* to, const std::byte* from, std::size_t bytes);
  const StoreChoice& choice() const { return choice_; }

  static constexpr std::size_t kMeasuredBytes = 4 << 10;  // shorter copies are not measured

 private:
  Now now_;
  StoreChoice choice_;
};

}  // namespace anello::shm
