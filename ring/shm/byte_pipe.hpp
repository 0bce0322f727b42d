// Bytes from one process to another through memory that both have mapped: a ring with one writer and one reader. Each
// owns a counter and never waits. Positions count all bytes ever written, so the difference is what can be read.
//
// Bytes in memory that the reader can map need not be copied: the writer then puts down a reference to them, and their
// positions stay empty in the ring. So do those of a short message, which travels in a slot of its own together with
// the flag that it is there: the reader waits for the slot, not for the counter and then the bytes. Messages in a row
// are mostly of one length, so while the reader looks at the flag it fetches the few cache lines that a message of this
// length has. Those of a longer one it fetches when the flag is there: it would take them away from a writer that has
// not filled them yet, again and again.
//
// After keep() the pipe goes both ways: the reader may write over what it has read before it consumes that, and the
// writer takes it from there. A cache line then goes from the writer to the reader and back, once each. That is half of
// what two pipes need, where each line must also be taken back from its reader before it can be written again.
//
// A side that is about to sleep sets its flag and looks at the other counter once more; the side that then moves its
// counter sees the flag, and its function returns that it must wake the other. (Sequentially consistent: one of the two
// sees the other.)
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
inline constexpr std::size_t kElementBytes = 8;  // of the largest element

// The shared part, all zero at first. Counters that different sides write share no cache line.
struct PipeState {
  static constexpr std::size_t kReferences = 16;  // at a time
  struct Reference {
    std::uint64_t begin;  // position
    Place place;
  };
  alignas(kLineBytes) std::atomic<std::uint64_t> written;
  std::atomic<std::uint64_t> referred;  // references ever made
  std::atomic<std::uint64_t> filled;    // slots ever filled, before `written`
  std::atomic<std::uint32_t> revoked;   // 1: what references that are not taken point to may have changed
  alignas(kLineBytes) std::atomic<std::uint64_t> read;
  alignas(kLineBytes) std::atomic<std::uint32_t> reader_sleeps;
  std::atomic<std::uint32_t> writer_sleeps;
  alignas(kLineBytes) std::array<Reference, kReferences> references;
  static constexpr std::size_t kSlotBytes = 2048;
  struct alignas(kSlotBytes) Slot {
    std::atomic<std::uint64_t> head;  // position of the first byte << kLengthBits | number of bytes
    std::array<std::byte, kSlotBytes - sizeof(std::uint64_t)> bytes;
  };
  // At a time. The writer looks at `read`, which lies in the reader's cache, once in kSlots messages: with 4 of them a
  // message of 4 bytes takes 1.4 times as long.
  static constexpr std::size_t kSlots = 16;
  static constexpr int kLengthBits = 11;
  std::array<Slot, kSlots> slots;
};
inline constexpr std::size_t kShortBytes = sizeof(PipeState::Slot::bytes);
static_assert(kShortBytes >> PipeState::kLengthBits == 0);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);

// The memory's size is a multiple of kLineBytes.
class PipeWriter {
 public:
  PipeWriter(PipeState& state, Bytes memory) : state_(state), memory_(memory) {}

  // Copies what fits, max_bytes at most, and returns how much: nothing while references are pending.
  std::size_t write(ConstBytes piece, std::size_t max_bytes);
  // All of the pieces, in a slot of their own: it is visible at once. Returns how many bytes: 0 if they have more than
  // kShortBytes or none, no slot is free, references are pending, or a head cannot say the position, as after 9 PB.
  std::size_t fill_slot(std::span<const ConstBytes> pieces);
  // Where the next bytes go, one run of max_bytes at most; empty if there is no room. Nothing is pending. put() counts
  // what was written there.
  Bytes room(std::size_t max_bytes);
  void put(std::size_t bytes) {
    taken_ = written_ += bytes;
    unpublished_ = true;
  }
  // Instead of a copy. False if kReferences are pending already.
  bool refer(const Place& place);
  // Bytes that were referred to and that the reader has not taken, as far as this side has seen.
  std::size_t pending() const { return std::size_t(written_ - taken_); }
  // How many of them the reader took since the last call, in order: their memory may be written to again.
  std::size_t taken();
  // References that the reader had not taken whole when taken() was last called.
  std::size_t standing() const { return std::size_t(referred_ - released_); }
  // If references stand: the reader will throw instead of taking more of them. Their memory may change from now on.
  void revoke();

  // Makes what was written or referred to, at least one byte, visible to the reader. True if it sleeps and must be
  // woken.
  bool publish();
  // Something as short as before may be written before long: the reader's copy of the next slot is taken from it now.
  void expect_short() const {
    const auto* const slot = reinterpret_cast<const std::byte*>(&state_.slots[filled_ % PipeState::kSlots]);
    for (std::size_t at = 0; at < used_slot_bytes_; at += kLineBytes) prefetch_to_write(slot + at);
  }
  // The next byte begins a cache line; the reader calls align() at the same position. Nothing is pending or kept.
  void align() {
    const std::uint64_t end = std::exchange(written_, (written_ + kLineBytes - 1) / kLineBytes * kLineBytes);
    if (end < written_) aligned_ = {end, written_};
    taken_ = written_;
    keeps_ = false;
  }
  // What is written from here on stays until it is taken: what the reader made of it. Nothing is referred to.
  void keep() {
    kept_ = written_;
    keeps_ = true;
  }
  // A run of what the reader has consumed and take() has not given back; empty if there is none.
  Bytes replies();
  void take(std::size_t bytes) { kept_ += bytes; }
  bool may_sleep_until_reply();
  // Call before sleeping until there is room or pending bytes were taken. False if that is so already.
  bool may_sleep();

 private:
  std::size_t room_bytes() const;
  PipeState& state_;
  Bytes memory_;
  std::uint64_t written_ = 0, taken_ = 0;
  std::uint64_t read_ = 0;  // as last seen
  struct {
    std::uint64_t from = 0, to = 0;
  } aligned_;               // what align() skipped last: nothing lies there
  std::uint64_t kept_ = 0;  // if keeps_: what was kept before it has been taken
  bool keeps_ = false;
  std::uint64_t referred_ = 0, released_ = 0;  // references made; those among them that do not stand any more
  std::array<std::uint64_t, PipeState::kReferences> ends_{};  // of the references that may be pending
  std::uint64_t filled_ = 0;                                  // slots
  std::array<std::uint64_t, PipeState::kSlots> slot_ends_{};  // of what they hold
  std::size_t used_slot_bytes_ = kLineBytes;                  // of the last slot, with its head
  bool unpublished_ = false;                                  // something was written or referred to, not in a slot
};

class PipeReader {
 public:
  PipeReader(PipeState& state, Bytes memory) : state_(state), memory_(memory) {}

  // Where the next bytes lie, up to the end of the reference; nothing if they were copied or have not come.
  std::optional<Place> referred();
  // The next bytes that were copied, up to the memory's end, a reference or a slot; empty if there are none. Valid
  // until consume(). A reader that aligns must know how many bytes come before: after them may lie skipped ones. Throws
  // Error{protocol} if the other side claims more than fits.
  Bytes peek();
  // True if the writer sleeps and must be woken. Throws Error{network} if the bytes were referred to and the writer has
  // revoked them: what was read may be anything.
  bool consume(std::size_t bytes);
  void align() { read_ = (read_ + kLineBytes - 1) / kLineBytes * kLineBytes; }
  // Whether there is something to read, copied or referred to.
  bool has_come() { return !slot().empty() || look(); }
  bool may_sleep();

 private:
  bool look();
  Bytes slot();
  PipeState& state_;
  Bytes memory_;
  std::uint64_t written_ = 0, read_ = 0;  // `written_` as last seen
  std::uint64_t taken_up_ = 0;            // references read so far, with the current one
  bool stands_ = false;                   // there is a current reference: at read_ or later
  std::uint64_t slots_ = 0, filled_ = 0;  // slots read; filled before `written_`
  std::uint64_t slot_begin_ = 0;          // of what the next slot holds, or held when it was filled before
  std::uint64_t slot_end_ = 0;
  PipeState::Reference reference_{};  // the current one
};

}  // namespace anello::shm
