// Bytes from one process to another through memory that both have mapped: a ring with one writer and one reader, each
// of which owns a counter and never waits. Positions count all bytes ever written, so the difference is what is there.
// Whoever is about to sleep says so and looks once more; whoever then moves the counter on is told to wake it. (Both
// orders are sequentially consistent: one of the two sees the other.)
#pragma once
#include <atomic>
#include <cstdint>

#include "ring/base/bytes.hpp"

namespace anello {

inline constexpr std::size_t kLineBytes = 64;

// The shared part, all zero at first. What one side writes often shares no cache line with what the other does.
struct PipeState {
  alignas(kLineBytes) std::atomic<std::uint64_t> written;
  alignas(kLineBytes) std::atomic<std::uint64_t> read;
  alignas(kLineBytes) std::atomic<std::uint32_t> reader_sleeps;
  std::atomic<std::uint32_t> writer_sleeps;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);

// The memory's size is a multiple of kLineBytes.
class PipeWriter {
 public:
  PipeWriter(PipeState& state, Bytes memory) : state_(state), memory_(memory) {}

  // Copies what fits, in order, and returns how much.
  std::size_t write(std::span<const ConstBytes> pieces, std::size_t most);
  // What was written, some bytes at least, is there for the reader. True if it sleeps and must be woken.
  bool publish();
  // What comes next begins a cache line, as the reader's align() will expect.
  void align() { written_ = (written_ + kLineBytes - 1) / kLineBytes * kLineBytes; }
  // Before sleeping until there is room: false if there is some already.
  bool may_sleep();

 private:
  std::size_t room();
  PipeState& state_;
  Bytes memory_;
  std::uint64_t written_ = 0, read_ = 0;  // the latter as last seen
};

class PipeReader {
 public:
  PipeReader(PipeState& state, Bytes memory) : state_(state), memory_(memory) {}

  // What has come, where it lies, up to the memory's end; empty if nothing has. Valid until it is consumed. Whoever
  // aligns knows how long what comes before is: beyond it may lie bytes that were skipped.
  // Throws Error{protocol} if the other side claims more than fits.
  ConstBytes peek();
  // True if the writer sleeps and must be woken.
  bool consume(std::size_t bytes);
  void align() { read_ = (read_ + kLineBytes - 1) / kLineBytes * kLineBytes; }
  bool may_sleep();

 private:
  PipeState& state_;
  ConstBytes memory_;
  std::uint64_t written_ = 0, read_ = 0;  // the former as last seen
};

}  // namespace anello
