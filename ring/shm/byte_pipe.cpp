#include "ring/shm/byte_pipe.hpp"

#include <algorithm>
#include <anello/error.hpp>
#include <cstring>
#include <utility>

namespace anello::shm {
namespace {

// Bytes of a slot's contents that are in the same cache line as its head.
constexpr std::size_t kFirstBytes = kLineBytes - sizeof(PipeState::Slot::head);
// Maximum length of a message that is prefetched at every look before the writer has set its flag.
constexpr std::size_t kEarlyBytes = 5 * kLineBytes;
// Longer messages are also prefetched, at the first kEarlyLooks looks, if the last message came soon. A message comes
// soon if it takes more than kSharedCoreLooks looks and at most kSoonLooks looks. A message that is there at the first
// look does not count as the last message. Ranks that share a core give up the core between two looks. Then a message
// is there after at most kSharedCoreLooks looks, and fetching early would be useless.
constexpr unsigned kEarlyLooks = 64, kSharedCoreLooks = 4, kSoonLooks = 16;

// Copies the bytes [from, until) of the joined pieces to the same positions in `to`.
void copy(std::span<const ConstBytes> pieces, std::size_t from, std::size_t until, Bytes to) {
  std::size_t place = 0;
  for (const ConstBytes piece : pieces) {
    const std::size_t begin = std::max(from, place), end = std::min(until, place + piece.size());
    if (begin < end) std::memcpy(to.data() + begin, piece.data() + (begin - place), end - begin);
    place += piece.size();
  }
}

// Fetches all cache lines at once. If they were fetched one after the other, each would take 0.1 us.
void fetch(const PipeState::Slot& slot, std::size_t bytes) {
  for (std::size_t at = kFirstBytes; at < bytes; at += kLineBytes) __builtin_prefetch(slot.bytes.data() + at);
}

}  // namespace

// The room ends at `used` plus the size of the memory, because the bytes from `used` on are still needed. align() or a
// slot may have moved `written_` beyond this end; then there is no room until `used` has grown enough. The end is a
// multiple of kElementBytes, because a piece that does not fit is cut there: its rest may be sent in a slot, and an
// element must not be split.
std::size_t PipeWriter::room_bytes() const {
  const std::uint64_t read = read_ >= aligned_.from ? std::max(read_, aligned_.to) : read_;
  const std::uint64_t used = keeps_ ? std::min(read, kept_) : read;
  const std::uint64_t end = (used + memory_.size()) / kElementBytes * kElementBytes;
  return written_ < end ? end - written_ : 0;
}

std::size_t PipeWriter::fill_slot(std::span<const ConstBytes> pieces) {
  std::size_t bytes = 0;
  for (const ConstBytes piece : pieces)
    if ((bytes += piece.size()) > kShortBytes) return 0;
  if (bytes == 0 || keeps_ || pending() > 0 || written_ >> (64 - PipeState::kLengthBits) != 0) return 0;
  std::uint64_t& end = slot_ends_[filled_ % PipeState::kSlots];
  if (end > read_) read_ = state_.read.load(std::memory_order_acquire);
  if (end > read_) return 0;
  PipeState::Slot& slot = state_.slots[filled_++ % PipeState::kSlots];
  // The first cache line is written last: the reader polls it, and would take it away between two writes.
  if (bytes > kFirstBytes) {
    copy(pieces, kFirstBytes, bytes, slot.bytes);
    copy(pieces, 0, kFirstBytes, slot.bytes);
  } else {
    std::byte* to = slot.bytes.data();
    for (const ConstBytes piece : pieces) to = std::copy(piece.begin(), piece.end(), to);
  }
  slot.head.store(written_ << PipeState::kLengthBits | bytes, std::memory_order_release);
  end = taken_ = written_ += bytes;
  used_slot_bytes_ = sizeof slot.head + bytes;
  return bytes;
}

std::size_t PipeWriter::write(ConstBytes piece, std::size_t max_bytes) {
  if (pending() > 0) return 0;
  piece = piece.first(std::min(piece.size(), max_bytes));
  std::size_t copied = 0;
  while (copied < piece.size()) {
    const Bytes to = room(piece.size() - copied);
    if (to.empty()) break;
    std::memcpy(to.data(), piece.data() + copied, to.size());
    put(to.size());
    copied += to.size();
  }
  return copied;
}

Bytes PipeWriter::room(std::size_t max_bytes) {
  if (room_bytes() < max_bytes) read_ = state_.read.load(std::memory_order_acquire);
  const std::size_t at = written_ % memory_.size();
  return memory_.subspan(at, std::min({max_bytes, room_bytes(), memory_.size() - at}));
}

Bytes PipeWriter::replies() {
  if (read_ <= kept_) read_ = state_.read.load(std::memory_order_acquire);
  if (read_ <= kept_) return {};
  const std::size_t at = kept_ % memory_.size(), there = std::size_t(std::min(read_, written_) - kept_);
  return memory_.subspan(at, std::min(there, memory_.size() - at));
}

bool PipeWriter::refer(const Place& place) {
  std::uint64_t& end = ends_[referred_ % PipeState::kReferences];
  if (end > read_) read_ = state_.read.load(std::memory_order_acquire);
  if (end > read_) return false;
  state_.references[referred_ % PipeState::kReferences] = {written_, place};
  referred_++;
  unpublished_ = true;
  end = written_ += place.bytes;
  return true;
}

std::size_t PipeWriter::taken() {
  if (pending() == 0) return 0;
  read_ = state_.read.load(std::memory_order_acquire);
  const std::uint64_t before = std::exchange(taken_, std::clamp(read_, taken_, written_));
  while (released_ < referred_ && ends_[released_ % PipeState::kReferences] <= taken_) released_++;
  return std::size_t(taken_ - before);
}

void PipeWriter::revoke() {
  if (pending() > 0) state_.revoked.store(1);
}

// Writes the counters in this order, so that a reader that sees the new `written` also sees the earlier references and
// slots.
bool PipeWriter::publish() {
  if (std::exchange(unpublished_, false)) {
    state_.referred.store(referred_, std::memory_order_release);
    state_.filled.store(filled_, std::memory_order_release);
    state_.written.store(written_);
  } else {
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  return state_.reader_sleeps.load() != 0 && state_.reader_sleeps.exchange(0) != 0;
}

bool PipeWriter::may_sleep() {
  state_.writer_sleeps.store(1);
  read_ = state_.read.load();
  if (pending() > 0 ? read_ <= taken_ : room_bytes() == 0) return true;
  state_.writer_sleeps.store(0);
  return false;
}

bool PipeWriter::may_sleep_until_reply() {
  state_.writer_sleeps.store(1);
  read_ = state_.read.load();
  if (read_ <= kept_) return true;
  state_.writer_sleeps.store(0);
  return false;
}

// Returns the contents of the next slot, from read_ on. Empty if they were already read, or if bytes outside of slots
// come first.
Bytes PipeReader::slot() {
  PipeState::Slot& slot = state_.slots[slots_ % PipeState::kSlots];
  const std::size_t expected = slot_end_ - slot_begin_;
  const bool soon = came_soon_ && looks_ < kEarlyLooks;
  looks_++;
  if (expected <= kEarlyBytes || soon) fetch(slot, expected);
  const std::uint64_t head = slot.head.load(std::memory_order_acquire);
  const std::size_t bytes = head % (1U << PipeState::kLengthBits);
  if (bytes > kShortBytes) throw Error(ErrorCode::protocol, "shared memory: a slot claims more bytes than fit");
  slot_begin_ = head >> PipeState::kLengthBits;
  slot_end_ = slot_begin_ + bytes;
  if (read_ < slot_begin_ || read_ >= slot_end_) return {};
  if (looks_ > 1) came_soon_ = looks_ > kSharedCoreLooks && looks_ <= kSoonLooks;
  looks_ = 0;
  fetch(slot, bytes);
  return Bytes(slot.bytes).first(bytes).subspan(read_ - slot_begin_);
}

// Returns true if there is something to read. If stands_ is true afterwards, `reference_` is the first reference that
// is not consumed.
bool PipeReader::look() {
  if (std::int64_t(written_ - read_) <= 0) {
    written_ = state_.written.load(std::memory_order_acquire);
    if (std::int64_t(written_ - read_) <= 0) return false;
    filled_ = state_.filled.load(std::memory_order_acquire);
  }
  if (stands_ || taken_up_ == state_.referred.load(std::memory_order_acquire)) return true;
  reference_ = state_.references[taken_up_++ % PipeState::kReferences];
  stands_ = true;
  if (reference_.begin < read_ || reference_.place.bytes == 0)
    throw Error(ErrorCode::protocol, "shared memory: a reference to bytes that have already arrived");
  return true;
}

std::optional<Place> PipeReader::referred() {
  if (!look() || !stands_ || reference_.begin > read_) return std::nullopt;
  const std::uint64_t consumed = read_ - reference_.begin;
  const Place& all = reference_.place;
  return Place{all.region, all.offset + consumed, all.bytes - consumed};
}

Bytes PipeReader::peek() {
  if (slots_ < filled_ || std::int64_t(written_ - read_) <= 0)
    if (const Bytes run = slot(); !run.empty()) return run;
  if (!look()) return {};
  std::uint64_t until = written_;
  if (slots_ < filled_) {
    if (const Bytes run = slot(); !run.empty()) return run;
    until = std::min(until, slot_begin_);
  }
  if (stands_) until = std::min(until, reference_.begin);
  if (until <= read_) return {};
  const std::uint64_t there = until - read_;  // including bytes that the writer skipped before a slot or a reference
  if (there >= memory_.size() + kLineBytes)
    throw Error(ErrorCode::protocol, "shared memory: the writer claims more bytes than fit");
  const std::size_t at = read_ % memory_.size();
  return memory_.subspan(at, std::min<std::size_t>(there, memory_.size() - at));
}

// The reader has read the bytes before this function reads `revoked`. So if `revoked` is not set now, the bytes were
// correct.
bool PipeReader::consume(std::size_t bytes) {
  if (stands_ && reference_.begin <= read_) {
    std::atomic_thread_fence(std::memory_order_acquire);
    if (state_.revoked.load() != 0)
      throw Error(ErrorCode::network, "shared memory: the operation was given up while its tensor was being read");
  }
  if (read_ < slot_end_ && read_ + bytes == slot_end_) slots_++;
  read_ += bytes;
  if (stands_ && read_ >= reference_.begin + reference_.place.bytes) stands_ = false;
  state_.read.store(read_);
  return state_.writer_sleeps.load() != 0 && state_.writer_sleeps.exchange(0) != 0;
}

bool PipeReader::may_sleep() {
  state_.reader_sleeps.store(1);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!has_come()) return true;
  state_.reader_sleeps.store(0);
  return false;
}

}  // namespace anello::shm
