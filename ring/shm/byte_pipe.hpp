// Sends bytes from one process to another through memory that both have mapped: a ring buffer with one writer and one
// reader. Each side has a counter that only this side writes. Neither side ever waits. Positions count all bytes ever
// written, so the writer's counter minus the reader's is the number of bytes to read.
//
// References: if the reader can map the memory of the bytes, they need not be copied. The writer stores a reference to
// them, and their positions in the ring stay empty.
//
// Slots: a short message is sent in a slot of its own together with a flag, and its positions in the ring also stay
// empty. So the reader waits only for the slot, instead of waiting first for the counter and then for the bytes.
// Successive messages mostly have the same length. So while the reader polls the flag, it also fetches the cache lines
// that a message of the same length as the last one would fill. For a long message this pays only if the message comes
// soon: otherwise the reader takes the lines away from the writer, again and again, before the writer has filled them.
// Ranks that call one collective after the other come together; the ranks of named operations mostly do not. So the
// reader fetches the lines of long messages early only if the last message came soon after the reader had begun to look
// for it.
//
// Replies: after keep() the pipe is used in both directions. The reader may overwrite bytes that it has read before it
// consumes them, and the writer reads the reply in their place. So each cache line goes once from the writer to the
// reader and once back. A second pipe for the replies would double the traffic, because each line must also be taken
// back from its reader before it is written again.
//
// Sleeping: a side that is about to sleep sets its flag and checks the other side's counter once more. If the other
// side moves its counter afterwards, it sees the flag, and its function returns that it must wake the sleeper. Flag and
// counter are sequentially consistent, so at least one of the two sides sees the other side's write.
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

// The shared part, initially all zero. Counters that different sides write are on different cache lines.
struct PipeState {
  static constexpr std::size_t kReferences = 16;  // maximum number of pending references
  struct Reference {
    std::uint64_t begin;  // position of the first byte
    Place place;
  };
  alignas(kLineBytes) std::atomic<std::uint64_t> written;
  std::atomic<std::uint64_t> referred;  // references ever made
  std::atomic<std::uint64_t> filled;    // slots filled so far; stored before `written` is
  std::atomic<std::uint32_t> revoked;   // 1: references that were not taken are invalid
  alignas(kLineBytes) std::atomic<std::uint64_t> read;
  alignas(kLineBytes) std::atomic<std::uint32_t> reader_sleeps;
  std::atomic<std::uint32_t> writer_sleeps;
  alignas(kLineBytes) std::array<Reference, kReferences> references;
  // The size of a slot is not a power of two, because otherwise all slots would be in two sets of the first-level
  // cache. A slot holds 2 KiB of data and the signature in front of them.
  static constexpr std::size_t kSlotBytes = (2 << 10) + 2 * kLineBytes;
  struct alignas(2 * kLineBytes) Slot {
    std::atomic<std::uint64_t> head;  // position of the first byte << kLengthBits | number of bytes
    std::array<std::byte, kSlotBytes - sizeof(std::uint64_t)> bytes;
  };
  // Number of slots. Only once in kSlots messages, the writer must read `read`, which is in the reader's cache. With 4
  // slots, a message of 4 bytes would take 1.4 times as long.
  static constexpr std::size_t kSlots = 16;
  static constexpr int kLengthBits = 12;
  std::array<Slot, kSlots> slots;
};
inline constexpr std::size_t kShortBytes = sizeof(PipeState::Slot::bytes);
static_assert(kShortBytes >> PipeState::kLengthBits == 0);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);

// The memory's size must be a multiple of kLineBytes.
class PipeWriter {
 public:
  PipeWriter(PipeState& state, Bytes memory) : state_(state), memory_(memory) {}

  // Copies as many bytes as fit, at most max_bytes, and returns their number. Copies nothing while references are
  // pending.
  std::size_t write(ConstBytes piece, std::size_t max_bytes);
  // Sends all pieces in one slot, where the reader sees them at once. Returns their bytes. Returns 0 if the pieces are
  // empty or longer than kShortBytes, no slot is free, references are pending, or the position is too large for a head
  // (after 9 PB).
  std::size_t fill_slot(std::span<const ConstBytes> pieces);
  // Returns the memory for the next bytes: one run of at most max_bytes, empty if there is no room. No reference may be
  // pending. Write the bytes there, and then call put() with their number.
  Bytes room(std::size_t max_bytes);
  void put(std::size_t bytes) {
    taken_ = written_ += bytes;
    unpublished_ = true;
  }
  // Adds a reference instead of a copy. False if kReferences references are pending already.
  bool refer(const Place& place);
  // Number of referenced bytes that the reader has not yet taken, as far as this side has seen.
  std::size_t pending() const { return std::size_t(written_ - taken_); }
  // Returns how many referenced bytes the reader has taken since the last call. The reader takes them in the order
  // of the references. The caller may change the memory of these bytes again.
  std::size_t taken();
  // Number of references that the reader had not taken completely at the last call of taken().
  std::size_t standing() const { return std::size_t(referred_ - released_); }
  // Revokes the references that were not taken. From then on the reader throws instead of taking their bytes, and the
  // caller may change their memory.
  void revoke();

  // Makes everything that was written or referenced (at least one byte) visible to the reader. True if the reader
  // sleeps and must be woken.
  bool publish();
  // Call if another message of the last one's length may be written soon. Fetches the next slot's cache lines from the
  // reader's cache now.
  void expect_short() const {
    const auto* const slot = reinterpret_cast<const std::byte*>(&state_.slots[filled_ % PipeState::kSlots]);
    for (std::size_t at = 0; at < used_slot_bytes_; at += kLineBytes) prefetch_to_write(slot + at);
  }
  // Moves to the next cache line. The reader must call align() at the same position. No reference may be pending, and
  // no byte kept for a reply.
  void align() {
    const std::uint64_t end = std::exchange(written_, (written_ + kLineBytes - 1) / kLineBytes * kLineBytes);
    if (end < written_) aligned_ = {end, written_};
    taken_ = written_;
    keeps_ = false;
  }
  // From here on, written bytes stay in the ring until the reader's replies to them are taken. References must not be
  // used.
  void keep() {
    kept_ = written_;
    keeps_ = true;
  }
  // Returns a run of bytes that the reader has consumed and take() has not yet freed; empty if there is none.
  Bytes replies();
  void take(std::size_t bytes) { kept_ += bytes; }
  bool may_sleep_until_reply();
  // Call before sleeping until there is room, or pending bytes were taken. False if that has already happened.
  bool may_sleep();

 private:
  std::size_t room_bytes() const;
  PipeState& state_;
  Bytes memory_;
  std::uint64_t written_ = 0, taken_ = 0;
  std::uint64_t read_ = 0;  // the reader's counter, as last seen
  struct {
    std::uint64_t from = 0, to = 0;
  } aligned_;               // the bytes that the last call of align() skipped; they have no data
  std::uint64_t kept_ = 0;  // if keeps_: all replies before this position were taken
  bool keeps_ = false;
  std::uint64_t referred_ = 0, released_ = 0;                 // numbers of references: made; taken or revoked
  std::array<std::uint64_t, PipeState::kReferences> ends_{};  // ends of the references that may be pending
  std::uint64_t filled_ = 0;                                  // number of filled slots
  std::array<std::uint64_t, PipeState::kSlots> slot_ends_{};  // end positions of the slots' contents
  std::size_t used_slot_bytes_ = kLineBytes;                  // bytes of the last slot, including its head
  bool unpublished_ = false;  // true if something was written or referenced outside of slots since the last publish()
};

class PipeReader {
 public:
  PipeReader(PipeState& state, Bytes memory) : state_(state), memory_(memory) {}

  // Returns the place of the next bytes, up to the end of their reference. Empty if the next bytes were copied, or none
  // have arrived.
  std::optional<Place> referred();
  // True if the last look found a reference, to the next bytes or to later ones.
  bool has_reference() const { return stands_; }
  // Returns the next bytes that were copied, up to the memory's end, a reference or a slot; empty if there are none.
  // Valid until consume(). The run may end with bytes that align() skipped, so a reader that calls align() must count
  // the bytes itself. Throws Error{protocol} if the other side claims more bytes than fit.
  Bytes peek();
  // Frees bytes that the caller has read. True if the writer sleeps and must be woken. Throws Error{network} if the
  // writer has revoked the bytes' reference; then the bytes may have changed while they were read.
  bool consume(std::size_t bytes);
  void align() { read_ = (read_ + kLineBytes - 1) / kLineBytes * kLineBytes; }
  // True if there is something to read, copied or referenced.
  bool has_come() { return !slot().empty() || look(); }
  bool may_sleep();

 private:
  bool look();
  Bytes slot();
  PipeState& state_;
  Bytes memory_;
  std::uint64_t written_ = 0, read_ = 0;  // `written_`: the writer's counter, as last seen
  std::uint64_t taken_up_ = 0;            // number of references read so far, including the current one
  bool stands_ = false;                   // true if there is a current reference; its bytes are at read_ or later
  std::uint64_t slots_ = 0, filled_ = 0;  // slots read; slots that were filled when `written_` was loaded
  std::uint64_t slot_begin_ = 0;          // position of the next slot's contents; outdated if that slot is not filled
  std::uint64_t slot_end_ = 0;
  unsigned looks_ = 0;                // how often the reader has looked for the next slot
  bool came_soon_ = false;            // true if the last slot was filled soon after the reader had begun to look
  PipeState::Reference reference_{};  // the current reference, if stands_
};

}  // namespace anello::shm
