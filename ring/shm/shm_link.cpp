#include "ring/shm/shm_link.hpp"

#include <algorithm>
#include <anello/error.hpp>
#include <array>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "ring/base/text.hpp"
#include "ring/link/bell.hpp"

namespace anello::shm {
namespace {

// The shared state of both sides; the maker's state comes first. New memory is all zero, and so is the initial state.
struct States {
  std::array<PipeState, 2> pipes;
  std::array<WindowState, 2> windows;
};
static_assert(sizeof(States) % kLineBytes == 0);

States& states(const MemoryFile& file) {
  return *reinterpret_cast<States*>(file.memory().data());
}
Bytes pipe_memory(const MemoryFile& file, std::size_t pipe_bytes, int pipe) {
  return file.memory().subspan(sizeof(States) + std::size_t(pipe) * pipe_bytes, pipe_bytes);
}

}  // namespace

std::size_t ShmLink::file_bytes(std::size_t pipe_bytes) {
  return sizeof(States) + 2 * pipe_bytes;
}

ShmLink::ShmLink(MemoryFile file, std::size_t pipe_bytes, Side side, Descriptor bell, Descriptor fd_socket)
    : file_(std::move(file)),
      pipe_bytes_(pipe_bytes),
      out_(states(file_).pipes[side == Side::taker], pipe_memory(file_, pipe_bytes, side == Side::taker)),
      in_(states(file_).pipes[side == Side::maker], pipe_memory(file_, pipe_bytes, side == Side::maker)),
      bell_(std::move(bell)),
      regions_(std::move(fd_socket), states(file_).windows[side == Side::taker].files,
               states(file_).windows[side == Side::maker].files),
      window_(states(file_).windows[side == Side::taker], states(file_).windows[side == Side::maker], regions_,
              bell_.get()) {}

// `pieces` still begins with the bytes that earlier calls have referenced. These bytes count as sent once the reader
// has taken them.
std::size_t ShmLink::send_from(std::span<const ConstBytes> pieces) {
  std::size_t referred = out_.pending(), moved = out_.taken();
  end_loans();
  std::size_t copied = referred == 0 ? out_.fill_slot(pieces) : 0;
  if (copied > 0) pieces = {};
  bool news = false;
  for (ConstBytes piece : pieces) {
    const std::size_t known = std::min(referred, piece.size());
    referred -= known;
    piece = piece.subspan(known);
    if (piece.empty()) continue;
    const bool large = may_refer_ && piece.size() >= kMinReferredBytes;
    if (auto loan = large ? lend(piece) : std::nullopt) {
      if (!refer(std::move(*loan))) break;
      news = true;
    } else {
      const std::size_t bytes = out_.write(piece, kBiteBytes - copied);
      copied += bytes;
      if (bytes < piece.size()) break;
    }
  }
  if ((news || copied > 0) && out_.publish()) link::ring_bell(bell_.get());
  return moved + copied;
}

std::optional<Bytes> ShmLink::room(std::size_t bytes) {
  if (out_.pending() > 0 || bytes < kMinMadeBytes) return std::nullopt;
  return out_.room(std::min(bytes, kBiteBytes));
}

void ShmLink::put(std::size_t bytes) {
  out_.put(bytes);
  if (out_.publish()) link::ring_bell(bell_.get());
}

// Sends the file before publish(), so that the file has arrived when the reader sees the reference. If the file cannot
// be sent, throws a std::runtime_error, not an Error, because the reader is not at fault.
bool ShmLink::refer(Loan loan) {
  const Place place = loan.place;
  if (!out_.refer(place)) return false;
  lent_[loans_++ % lent_.size()] = std::move(loan.memory);
  try {
    regions_.send(place.region);
  } catch (const Error& e) {
    throw std::runtime_error(text("memory could not be shown to another rank of this host: ", e.message()));
  }
  return true;
}

void ShmLink::end_loans() {
  while (loans_ - ended_loans_ > out_.standing()) lent_[ended_loans_++ % lent_.size()].reset();
}

std::size_t ShmLink::recv_into(std::span<const Bytes> pieces) {
  std::size_t bytes = 0;
  for (Bytes piece : pieces) {
    while (!piece.empty()) {
      const Bytes run = peek();
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

Bytes ShmLink::peek() {
  Bytes run = in_.peek();
  if (run.empty() && in_.has_reference())
    if (const std::optional<Place> place = in_.referred()) run = regions_.memory_of(*place);
  return run.first(std::min(run.size(), kBiteBytes));
}

void ShmLink::consume(std::size_t bytes) {
  if (in_.consume(bytes)) link::ring_bell(bell_.get());
  out_.expect_short();
}

void ShmLink::begin(bool sending, bool may_refer) {
  may_refer_ = may_refer;
  if (sending)
    out_.align();
  else
    in_.align();
}

// Moves to the next cache line, where the next operation's first byte will be. begin(), which normally does this, has
// not been called for that operation yet.
bool ShmLink::has_arrived() {
  in_.align();
  return in_.has_come();
}

Bytes ShmLink::replies() {
  const Bytes run = out_.replies();
  return run.first(std::min(run.size(), kBiteBytes));
}

bool ShmLink::want(link::Wanted wanted, link::Waiter& /*waiter*/) {
  if (wanted == link::Wanted::reply) return out_.may_sleep_until_reply();
  return wanted == link::Wanted::room ? out_.may_sleep() : in_.may_sleep();
}

}  // namespace anello::shm
