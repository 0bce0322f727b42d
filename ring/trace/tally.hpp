// The counters of one group, and sums of such counters. Written by one thread at a time, read by any thread.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "ring/base/signature.hpp"
#include "ring/trace/ticks.hpp"

namespace anello::trace {

inline constexpr std::size_t kKinds = std::size_t(kAllKinds.back()) + 1;

// The counters at one moment.
struct Totals {
  struct OfKind {
    std::uint64_t operations = 0;
    std::uint64_t bytes = 0;  // size of the tensors
    Ticks busy = 0;           // total time from beginning to end
  };
  std::array<OfKind, kKinds> kinds;                  // by Kind
  std::uint64_t sent_bytes = 0, received_bytes = 0;  // elements count in the type in which they are sent
  std::uint64_t sleeps = 0, stalls = 0;
  Ticks slept = 0;

  Totals& operator+=(const Totals& other) {
    for (std::size_t k = 0; k < kKinds; k++) {
      kinds[k].operations += other.kinds[k].operations;
      kinds[k].bytes += other.kinds[k].bytes;
      kinds[k].busy += other.kinds[k].busy;
    }
    sent_bytes += other.sent_bytes;
    received_bytes += other.received_bytes;
    sleeps += other.sleeps;
    stalls += other.stalls;
    slept += other.slept;
    return *this;
  }
};

class Tally {
 public:
  void done(Kind kind, std::uint64_t bytes, std::uint64_t sent_bytes, std::uint64_t received_bytes, Ticks busy) {
    OfKind& of = kinds_[std::size_t(kind)];
    of.operations.add(1);
    of.bytes.add(bytes);
    of.busy.add(busy);
    sent_bytes_.add(sent_bytes);
    received_bytes_.add(received_bytes);
  }
  void slept(Ticks time) {
    sleeps_.add(1);
    slept_.add(time);
  }
  void stalled() { stalls_.add(1); }

  Totals totals() const {
    Totals all;
    for (std::size_t k = 0; k < kKinds; k++)
      all.kinds[k] = {kinds_[k].operations.get(), kinds_[k].bytes.get(), kinds_[k].busy.get()};
    all.sent_bytes = sent_bytes_.get();
    all.received_bytes = received_bytes_.get();
    all.sleeps = sleeps_.get();
    all.stalls = stalls_.get();
    all.slept = slept_.get();
    return all;
  }

 private:
  // There is only one writer at a time, so add() needs no atomic read-modify-write.
  class Count {
   public:
    void add(std::uint64_t more) { value_.store(get() + more, std::memory_order_relaxed); }
    std::uint64_t get() const { return value_.load(std::memory_order_relaxed); }

   private:
    std::atomic<std::uint64_t> value_ = 0;
  };
  struct OfKind {
    Count operations, bytes, busy;
  };
  std::array<OfKind, kKinds> kinds_;
  Count sent_bytes_, received_bytes_, sleeps_, stalls_, slept_;
};

}  // namespace anello::trace
