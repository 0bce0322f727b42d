// Sends bytes from one process to another through memory that both have mapped: a ring buffer with one writer and one
// reader. Each side has a counter that only it writes, and never waits. Positions count all bytes ever written, so the
// difference of the counters is the number of bytes to read.
//
// Bytes in memory that the reader can map need not be copied: the writer puts down a reference to them, and their
// positions in the ring stay empty. The same is true of a short message, which is sent in its own slot together with a
// flag: so the reader waits only for the slot, instead of for the counter and then for the bytes. Successive messages
// mostly have the same length, so while the reader polls the flag it also fetches the few cache lines of a message of
// the last length. It fetches a longer message only once the flag is set: otherwise it would take the lines away, again
// and again, from a writer that has not filled them yet.
//
// After keep() the pipe is used in both directions: the reader may overwrite what it has read before it consumes it,
// and the writer takes the reply from there. A cache line then goes from the writer to the reader and back, once each.
// That is half as much as with two pipes, where each line must also be taken back from its reader before it is written
// again.
//
// A side that is about to sleep sets its flag and checks the other counter once more. The side that then moves its
// counter sees the flag, and its function returns that it must wake the other side. (Sequentially consistent: at least
// one of the two sees the other's write.)
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <utility>

#include "ring/base/bytes.hpp"
#include "ring/shm/prefetch.hpp"
#include "ring/shm/region.hpp"

namespace anello::shm {

inline constexpr std::size_t kLineBytes = 64;
inline constexpr std::size_t kElementBytes = 8;  // size of the largest element type

// The shared part, initially all zero. Counters that different sides write are in different cache lines.
struct PipeState {
  static constexpr std::size_t kReferences = 16;  // maximum number of references at a time
  struct Reference {
    std::uint64_t begin;  // position
    Place place;
  };
  alignas(kLineBytes) std::atomic<std::uint64_t> written;
  std::atomic<std::uint64_t> referred;  // references ever made
  std::atomic<std::uint64_t> filled;    // slots ever filled, before `written`
  std::atomic<std::uint32_t> revoked;   // 1: the memory of references that were not taken may have changed
  alignas(kLineBytes) std::atomic<std::uint64_t> read;
  alignas(kLineBytes) std::atomic<std::uint32_t> reader_sleeps;
  std::atomic<std::uint32_t> writer_sleeps;
  alignas(kLineBytes) std::array<Reference, kReferences> references;
  static constexpr std::size_t kSlotBytes = 2048;
  struct alignas(kSlotBytes) Slot {
    std::atomic<std::uint64_t> head;  // position of the first byte << kLengthBits | number of bytes
    std::array<std::byte, kSlotBytes - sizeof(std::uint64_t)> bytes;
  };
  // Number of slots. The writer reads `read`, which is in the reader's cache, once in kSlots messages: with 4 slots a
  // message of 4 bytes takes 1.4 times as long.
  static constexpr std::size_t kSlots = 16;
  static constexpr int kLengthBits = 11;
  std::array<Slot, kSlots> slots;
};
inline constexpr std::size_t kShortBytes = sizeof(PipeState::Slot::bytes);
static_assert(kShortBytes >> PipeState::kLengthBits == 0);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);

// The memory's size must be a multiple of kLineBytes.
class PipeWriter {
 public:
  PipeWriter(PipeState& state, Bytes memory) : state_(state), memory_(memory) {}

  // Copies as much as fits, at most max_bytes, and returns how much. Copies nothing while references are pending.
  std::size_t write(ConstBytes piece, std::size_t max_bytes);
  // Sends all pieces in a slot of their own; the reader sees them at once. Returns their bytes. Returns 0 if they have
  // none or more than kShortBytes, no slot is free, references are pending, or the position does not fit into a head
  // (after 9 PB).
  std::size_t fill_slot(std::span<const ConstBytes> pieces);
  // Returns the memory for the next bytes, one run of at most max_bytes; empty if there is no room. No reference may be
  // pending. put() counts the bytes that were written there.
  Bytes room(std::size_t max_bytes);
  void put(std::size_t bytes) {
    taken_ = written_ += bytes;
    unpublished_ = true;
  }
  // Adds a reference instead of a copy. False if kReferences references are pending already.
  bool refer(const Place& place);
  // Referenced bytes that the reader has not taken, as far as this side has seen.
  std::size_t pending() const { return std::size_t(written_ - taken_); }
  // Returns how many of these bytes the reader took since the last call, in order. Their memory may be written to
  // again.
  std::size_t taken();
  // References that the reader had not taken completely at the last call of taken().
  std::size_t standing() const { return std::size_t(referred_ - released_); }
  // If such references exist, the reader throws from now on instead of taking more of them. Their memory may change
  // then.
  void revoke();

  // Makes everything written or referenced, at least one byte, visible to the reader. True if the reader sleeps and
  // must be woken.
  bool publish();
  // Call if a message as short as the last one may be written soon: takes the next slot's cache lines from the reader
  // now.
  void expect_short() const {
    const auto* const slot = reinterpret_cast<const std::byte*>(&state_.slots[filled_ % PipeState::kSlots]);
    for (std::size_t at = 0; at < used_slot_bytes_; at += kLineBytes) prefetch_to_write(slot + at);
  }
  // Moves to the next cache line; the reader must call align() at the same position. Nothing may be pending or kept.
  void align() {
    const std::uint64_t end = std::exchange(written_, (written_ + kLineBytes - 1) / kLineBytes * kLineBytes);
    if (end < written_) aligned_ = {end, written_};
    taken_ = written_;
    keeps_ = false;
  }
  // From here on, written bytes stay in the ring until the reader's replies to them are taken. No references may be
  // used.
  void keep() {
    kept_ = written_;
    keeps_ = true;
  }
  // Returns a run of bytes that the reader has consumed and that take() has not returned yet; empty if there is none.
  Bytes replies();
  void take(std::size_t bytes) { kept_ += bytes; }
  bool may_sleep_until_reply();
  // Call before sleeping until there is room or pending bytes were taken. False if that has happened already.
  bool may_sleep();

 private:
  std::size_t room_bytes() const;
  PipeState& state_;
  Bytes memory_;
  std::uint64_t written_ = 0, taken_ = 0;
  std::uint64_t read_ = 0;  // last value seen
  struct {
    std::uint64_t from = 0, to = 0;
  } aligned_;               // what align() skipped last; has no data
  std::uint64_t kept_ = 0;  // if keeps_: all replies before this position were taken
  bool keeps_ = false;
  std::uint64_t referred_ = 0, released_ = 0;                 // references made; those that were taken or revoked
  std::array<std::uint64_t, PipeState::kReferences> ends_{};  // ends of the references that may be pending
  std::uint64_t filled_ = 0;                                  // number of filled slots
  std::array<std::uint64_t, PipeState::kSlots> slot_ends_{};  // end positions of the slots' contents
  std::size_t used_slot_bytes_ = kLineBytes;                  // bytes of the last slot, including its head
  bool unpublished_ = false;                                  // something was written or referenced outside of slots
};

class PipeReader {
 public:
  PipeReader(PipeState& state, Bytes memory) : state_(state), memory_(memory) {}

  // Returns the place of the next bytes, up to the end of their reference; empty if they were copied or have not
  // arrived.
  std::optional<Place> referred();
  // Returns the next bytes that were copied, up to the memory's end, a reference or a slot; empty if there are none.
  // Valid until consume(). Bytes that align() skipped may follow them, so a reader that calls align() must count the
  // bytes itself. Throws Error{protocol} if the other side claims more than fits.
  Bytes peek();
  // True if the writer sleeps and must be woken. Throws Error{network} if the bytes were referenced and the writer has
  // revoked the reference: the bytes that were read may be wrong.
  bool consume(std::size_t bytes);
  void align() { read_ = (read_ + kLineBytes - 1) / kLineBytes * kLineBytes; }
  // Whether there is something to read, copied or referenced.
  bool has_come() { return !slot().empty() || look(); }
  bool may_sleep();

 private:
  bool look();
  Bytes slot();
  PipeState& state_;
  Bytes memory_;
  std::uint64_t written_ = 0, read_ = 0;  // `written_`: last value seen
  std::uint64_t taken_up_ = 0;            // references read so far, including the current one
  bool stands_ = false;                   // there is a current reference, to bytes at read_ or later
  std::uint64_t slots_ = 0, filled_ = 0;  // slots read; slots filled before `written_`
  std::uint64_t slot_begin_ = 0;          // position of the next slot's contents, or of what it held before
  std::uint64_t slot_end_ = 0;
  PipeState::Reference reference_{};  // the current one
};

}  // namespace anello::shm
