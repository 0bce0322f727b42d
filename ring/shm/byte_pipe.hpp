// Bytes from one process to another through memory that both have mapped: a ring with one writer and one reader, each
// of which owns a counter and never waits. Positions count all bytes ever written, so the difference is what is there.
// Bytes that lie where the reader can map them need not be copied: the writer then says where, and the positions that
// they take up stay empty in the ring.
// Whoever is about to sleep says so and looks once more; whoever then moves the counter on is told to wake it. (Both
// orders are sequentially consistent: one of the two sees the other.)
#pragma once
#include <array>
#include <atomic>
#include <cstdint>

#include "ring/base/bytes.hpp"
#include "ring/shm/region.hpp"

namespace anello {

inline constexpr std::size_t kLineBytes = 64;

// The shared part, all zero at first. What one side writes often shares no cache line with what the other does.
struct PipeState {
  static constexpr std::size_t kReferences = 16;  // that stand at a time
  struct Reference {
    std::uint64_t begin;  // position
    Place place;
  };
  alignas(kLineBytes) std::atomic<std::uint64_t> written;
  std::atomic<std::uint64_t> referred;  // how many references were ever made
  alignas(kLineBytes) std::atomic<std::uint64_t> read;
  alignas(kLineBytes) std::atomic<std::uint32_t> reader_sleeps;
  std::atomic<std::uint32_t> writer_sleeps;
  alignas(kLineBytes) std::array<Reference, kReferences> references;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);

// The memory's size is a multiple of kLineBytes.
class PipeWriter {
 public:
  PipeWriter(PipeState& state, Bytes memory) : state_(state), memory_(memory) {}

  // Copies what fits, in order, and returns how much: nothing while references are pending.
  std::size_t write(ConstBytes piece, std::size_t most);
  // Instead of a copy. False if too many references stand already.
  bool refer(const Place& place);
  // How many bytes that were referred to the reader has not been seen to take.
  std::size_t pending() const { return std::size_t(written_ - taken_); }
  // How many of them it took since the last call, in order: they may be written to again.
  std::size_t taken();

  // What was written or referred to, some bytes at least, is there for the reader. True if it sleeps and must be woken.
  bool publish();
  // What comes next begins a cache line, as the reader's align() will expect. Nothing is pending.
  void align() { taken_ = written_ = (written_ + kLineBytes - 1) / kLineBytes * kLineBytes; }
  // Before sleeping until there is room, or pending bytes were taken: false if that is so already.
  bool may_sleep();

 private:
  std::size_t room() const;
  PipeState& state_;
  Bytes memory_;
  std::uint64_t written_ = 0, taken_ = 0;
  std::uint64_t read_ = 0;  // as last seen
  std::uint64_t referred_ = 0;
  std::array<std::uint64_t, PipeState::kReferences> ends_{};  // of the references that may still stand
};

class PipeReader {
 public:
  PipeReader(PipeState& state, Bytes memory) : state_(state), memory_(memory) {}

  // Where the next bytes lie if they were referred to, as far as that goes; nothing if they were not, or have not come.
  std::optional<Place> referred();
  // What was copied, up to the memory's end or a reference; empty if nothing was. Valid until it is consumed.
  // Whoever aligns knows how long what comes before is: beyond it may lie bytes that were skipped.
  // Throws Error{protocol} if the other side claims more than fits.
  ConstBytes peek();
  // True if the writer sleeps and must be woken.
  bool consume(std::size_t bytes);
  void align() { read_ = (read_ + kLineBytes - 1) / kLineBytes * kLineBytes; }
  bool may_sleep();

 private:
  bool look();
  PipeState& state_;
  ConstBytes memory_;
  std::uint64_t written_ = 0, read_ = 0;  // the former as last seen
  std::uint64_t taken_up_ = 0;            // references that have been read, the current one too
  bool stands_ = false;                   // there is a current one: at read_, or to come
  PipeState::Reference reference_{};      // the current one
};

}  // namespace anello
