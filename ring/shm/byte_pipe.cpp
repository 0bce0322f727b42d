#include "ring/shm/byte_pipe.hpp"

#include <algorithm>
#include <anello/error.hpp>
#include <cstring>
#include <utility>

namespace anello::shm {

// align() may have moved `written_` beyond what fits; then there is no room until the reader has followed.
std::size_t PipeWriter::room() const {
  const std::uint64_t used = written_ - read_;
  return used < memory_.size() ? memory_.size() - used : 0;
}

std::size_t PipeWriter::write(ConstBytes piece, std::size_t max_bytes) {
  if (pending() > 0) return 0;
  piece = piece.first(std::min(piece.size(), max_bytes));
  if (room() < piece.size()) read_ = state_.read.load(std::memory_order_acquire);
  piece = piece.first(std::min(piece.size(), room()));
  const std::size_t at = written_ % memory_.size(), first = std::min(piece.size(), memory_.size() - at);
  std::memcpy(memory_.data() + at, piece.data(), first);
  std::memcpy(memory_.data(), piece.data() + first, piece.size() - first);
  taken_ = written_ += piece.size();
  return piece.size();
}

bool PipeWriter::refer(const Place& place) {
  std::uint64_t& end = ends_[referred_ % PipeState::kReferences];
  if (end > read_) read_ = state_.read.load(std::memory_order_acquire);
  if (end > read_) return false;
  state_.references[referred_ % PipeState::kReferences] = {written_, place};
  referred_++;
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

// In this order: a reader that sees the new `written` also sees the references before it.
bool PipeWriter::publish() {
  state_.referred.store(referred_, std::memory_order_release);
  state_.written.store(written_);
  return state_.reader_sleeps.load() != 0 && state_.reader_sleeps.exchange(0) != 0;
}

bool PipeWriter::may_sleep() {
  state_.writer_sleeps.store(1);
  read_ = state_.read.load();
  if (pending() > 0 ? read_ <= taken_ : room() == 0) return true;
  state_.writer_sleeps.store(0);
  return false;
}

// True if there is something to read; then `reference_` is the first reference not yet consumed, if stands_.
bool PipeReader::look() {
  if (std::int64_t(written_ - read_) <= 0) {
    written_ = state_.written.load(std::memory_order_acquire);
    if (std::int64_t(written_ - read_) <= 0) return false;
  }
  if (stands_ || taken_up_ == state_.referred.load(std::memory_order_acquire)) return true;
  reference_ = state_.references[taken_up_++ % PipeState::kReferences];
  stands_ = true;
  if (reference_.begin < read_ || reference_.place.bytes == 0)
    throw Error(ErrorCode::protocol, "shared memory: a reference to bytes that have come already");
  return true;
}

std::optional<Place> PipeReader::referred() {
  if (!look() || !stands_ || reference_.begin > read_) return std::nullopt;
  const std::uint64_t consumed = read_ - reference_.begin;
  const Place& all = reference_.place;
  return Place{all.region, all.offset + consumed, all.bytes - consumed};
}

ConstBytes PipeReader::peek() {
  if (!look() || (stands_ && reference_.begin <= read_)) return {};
  const std::uint64_t there = (stands_ ? std::min(written_, reference_.begin) : written_) - read_;
  if (there > memory_.size()) throw Error(ErrorCode::protocol, "shared memory: the writer claims more bytes than fit");
  const std::size_t at = read_ % memory_.size();
  return memory_.subspan(at, std::min<std::size_t>(there, memory_.size() - at));
}

// The bytes have been read before `revoked` is: if it is not set, they were as the writer meant them.
bool PipeReader::consume(std::size_t bytes) {
  if (stands_ && reference_.begin <= read_) {
    std::atomic_thread_fence(std::memory_order_acquire);
    if (state_.revoked.load() != 0)
      throw Error(ErrorCode::network, "shared memory: the operation was given up while its tensor was being read");
  }
  read_ += bytes;
  if (stands_ && read_ >= reference_.begin + reference_.place.bytes) stands_ = false;
  state_.read.store(read_);
  return state_.writer_sleeps.load() != 0 && state_.writer_sleeps.exchange(0) != 0;
}

bool PipeReader::may_sleep() {
  state_.reader_sleeps.store(1);
  written_ = state_.written.load();
  if (std::int64_t(written_ - read_) <= 0) return true;
  state_.reader_sleeps.store(0);
  return false;
}

}  // namespace anello::shm
