#include "ring/shm/shm_link.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "ring/link/bell.hpp"

namespace anello {
namespace {

using States = std::array<PipeState, 2>;
static_assert(sizeof(States) % kLineBytes == 0);

// A segment: the two states, the maker's pipe, the taker's pipe. Fresh memory is zero, which is how states begin.
PipeState& state(const Segment& segment, int pipe) {
  return (*reinterpret_cast<States*>(segment.memory().data()))[std::size_t(pipe)];
}
Bytes memory(const Segment& segment, std::size_t pipe_bytes, int pipe) {
  return segment.memory().subspan(sizeof(States) + std::size_t(pipe) * pipe_bytes, pipe_bytes);
}

}  // namespace

std::size_t ShmLink::segment_bytes(std::size_t pipe_bytes) {
  return sizeof(States) + 2 * pipe_bytes;
}

ShmLink::ShmLink(Segment segment, std::size_t pipe_bytes, Side side, Descriptor bell)
    : segment_(std::move(segment)),
      out_(state(segment_, side == Side::taker), memory(segment_, pipe_bytes, side == Side::taker)),
      in_(state(segment_, side == Side::maker), memory(segment_, pipe_bytes, side == Side::maker)),
      bell_(std::move(bell)) {}

std::size_t ShmLink::send_from(std::span<const ConstBytes> pieces) {
  const std::size_t bytes = out_.write(pieces, kBiteBytes);
  if (bytes > 0 && out_.publish()) ring_bell(bell_.get());
  return bytes;
}

std::size_t ShmLink::recv_into(std::span<const Bytes> pieces) {
  std::size_t bytes = 0;
  for (Bytes piece : pieces) {
    while (!piece.empty()) {
      const ConstBytes run = peek();
      if (run.empty()) return bytes;
      const std::size_t some = std::min(run.size(), piece.size());
      std::memcpy(piece.data(), run.data(), some);
      consume(some);
      bytes += some;
      piece = piece.subspan(some);
    }
  }
  return bytes;
}

ConstBytes ShmLink::peek() {
  const ConstBytes run = in_.peek();
  return run.first(std::min(run.size(), kBiteBytes));
}

void ShmLink::consume(std::size_t bytes) {
  if (in_.consume(bytes)) ring_bell(bell_.get());
}

void ShmLink::begin(bool sending) {
  if (sending)
    out_.align();
  else
    in_.align();
}

bool ShmLink::may_sleep(bool sending) {
  return sending ? out_.may_sleep() : in_.may_sleep();
}

}  // namespace anello
