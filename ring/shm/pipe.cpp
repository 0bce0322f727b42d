#include "ring/shm/pipe.hpp"

#include <algorithm>
#include <anello/error.hpp>
#include <cstring>

namespace anello {

// Aligning may have moved `written_` beyond what fits; then there is no room until the reader has followed.
std::size_t PipeWriter::room() {
  const std::uint64_t used = written_ - read_;
  return used < memory_.size() ? memory_.size() - used : 0;
}

std::size_t PipeWriter::write(std::span<const ConstBytes> pieces, std::size_t most) {
  std::size_t wanted = 0;
  for (const ConstBytes piece : pieces) wanted += piece.size();
  wanted = std::min(wanted, most);
  if (room() < wanted) read_ = state_.read.load(std::memory_order_acquire);
  const std::size_t bytes = std::min(wanted, room());
  std::size_t left = bytes;
  for (ConstBytes piece : pieces) {
    piece = piece.first(std::min(piece.size(), left));
    left -= piece.size();
    while (!piece.empty()) {
      const std::size_t at = written_ % memory_.size();
      const std::size_t run = std::min(piece.size(), memory_.size() - at);
      std::memcpy(memory_.data() + at, piece.data(), run);
      written_ += run;
      piece = piece.subspan(run);
    }
  }
  return bytes;
}

bool PipeWriter::publish() {
  state_.written.store(written_);
  return state_.reader_sleeps.load() != 0 && state_.reader_sleeps.exchange(0) != 0;
}

bool PipeWriter::may_sleep() {
  state_.writer_sleeps.store(1);
  read_ = state_.read.load();
  if (room() == 0) return true;
  state_.writer_sleeps.store(0);
  return false;
}

ConstBytes PipeReader::peek() {
  if (std::int64_t(written_ - read_) <= 0) {
    written_ = state_.written.load(std::memory_order_acquire);
    if (std::int64_t(written_ - read_) <= 0) return {};
    if (written_ - read_ > memory_.size())
      throw Error(Code::protocol, "shared memory: more is said to have come than fits");
  }
  const std::size_t at = read_ % memory_.size();
  return memory_.subspan(at, std::min<std::size_t>(written_ - read_, memory_.size() - at));
}

bool PipeReader::consume(std::size_t bytes) {
  read_ += bytes;
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

}  // namespace anello
