#include "ring/shm/shm_link.hpp"

#include <algorithm>
#include <anello/error.hpp>
#include <array>
#include <cstring>
#include <iterator>
#include <utility>

#include "ring/base/wire.hpp"
#include "ring/link/bell.hpp"
#include "ring/shm/fd_message.hpp"

namespace anello::shm {
namespace {

using States = std::array<PipeState, 2>;
static_assert(sizeof(States) % kLineBytes == 0);

constexpr std::size_t kNoteBytes = 16;  // which region, and its size

// The memory: the two states, the maker's pipe, the taker's pipe. Fresh memory is zero, as a state is at first.
PipeState& state(const MemoryFile& file, int pipe) {
  return (*reinterpret_cast<States*>(file.memory().data()))[std::size_t(pipe)];
}
Bytes memory(const MemoryFile& file, std::size_t pipe_bytes, int pipe) {
  return file.memory().subspan(sizeof(States) + std::size_t(pipe) * pipe_bytes, pipe_bytes);
}

}  // namespace

std::size_t ShmLink::file_bytes(std::size_t pipe_bytes) {
  return sizeof(States) + 2 * pipe_bytes;
}

ShmLink::ShmLink(MemoryFile file, std::size_t pipe_bytes, Side side, Descriptor bell, Descriptor fd_socket)
    : file_(std::move(file)),
      out_(state(file_, side == Side::taker), memory(file_, pipe_bytes, side == Side::taker)),
      in_(state(file_, side == Side::maker), memory(file_, pipe_bytes, side == Side::maker)),
      bell_(std::move(bell)),
      fd_socket_(std::move(fd_socket)) {}

// Bytes that were referred to earlier are still the first of the pieces; they count as sent once the reader took them.
std::size_t ShmLink::send_from(std::span<const ConstBytes> pieces) {
  std::size_t referred = out_.pending(), moved = out_.taken(), copied = 0;
  bool news = false;
  end_loans();
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

// The file is sent before publish(), so that it has arrived when the reader sees the reference.
bool ShmLink::refer(Loan loan) {
  const Place place = loan.place;
  const bool is_sent = std::find(sent_files_.begin(), sent_files_.end(), place.region) != sent_files_.end();
  if (!out_.refer(place)) return false;
  lent_[loans_++ % lent_.size()] = std::move(loan.memory);
  if (is_sent) return true;
  const RegionFile file = file_of(place.region);
  Writer note;
  note.u64(place.region).u64(file.bytes);
  send_fd_message(fd_socket_, note.bytes(), std::array{file.descriptor});
  sent_files_.push_back(place.region);
  if (sent_files_.size() > kMaxRegions) sent_files_.pop_front();
  return true;
}

void ShmLink::end_loans() {
  while (loans_ - ended_loans_ > out_.standing()) lent_[ended_loans_++ % lent_.size()].reset();
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
  ConstBytes run = in_.peek();
  if (run.empty())
    if (const std::optional<Place> place = in_.referred()) run = memory_of(*place);
  return run.first(std::min(run.size(), kBiteBytes));
}

ConstBytes ShmLink::memory_of(const Place& place) {
  const auto is_it = [&](const Theirs& each) { return each.number == place.region; };
  auto region = std::find_if(theirs_.begin(), theirs_.end(), is_it);
  if (region == theirs_.end()) {
    map_next();
    region = std::prev(theirs_.end());
  }
  const ConstBytes memory = region->file.memory();
  if (!is_it(*region) || place.offset > memory.size() || place.bytes > memory.size() - place.offset)
    throw Error(ErrorCode::protocol, "shared memory: a reference to memory that is not there");
  return memory.subspan(place.offset, place.bytes);
}

void ShmLink::map_next() {
  FdMessage received = receive_fd_message(fd_socket_, kNoteBytes);
  Reader note("note of shared memory", received.bytes);
  const std::uint64_t number = note.u64(), bytes = note.u64();
  if (received.descriptors.size() != 1) throw Error(ErrorCode::protocol, "shared memory: a note without its file");
  theirs_.push_back({number, MemoryFile::adopt(std::move(received.descriptors[0]), bytes, MemoryFile::Access::read)});
  if (theirs_.size() > kMaxRegions) theirs_.pop_front();
}

void ShmLink::consume(std::size_t bytes) {
  if (in_.consume(bytes)) link::ring_bell(bell_.get());
}

void ShmLink::begin(bool sending, bool may_refer) {
  may_refer_ = may_refer;
  if (sending)
    out_.align();
  else
    in_.align();
}

bool ShmLink::want(bool sending, link::Waiter& /*waiter*/) {
  return sending ? out_.may_sleep() : in_.may_sleep();
}

}  // namespace anello::shm
