// The bytes on their way from one rank to another.
#include <algorithm>
#include <limits>

#include "tests/support/simulation.hpp"

namespace anello {
namespace {

constexpr std::uint64_t kForever = std::numeric_limits<std::uint64_t>::max();

template <class Piece>
std::uint64_t total_bytes(std::span<const Piece> pieces) {
  std::uint64_t total = 0;
  for (const Piece& piece : pieces) total += piece.size();
  return total;
}

}  // namespace

std::uint64_t Simulation::shortened(std::uint64_t bytes) {
  if (random_.percent(std::uint64_t(weather_.refused_percent))) return 0;
  if (bytes > 1 && random_.percent(std::uint64_t(weather_.short_percent))) return random_.from(1, bytes);
  return bytes;
}

std::size_t Simulation::send(Pipe& pipe, std::span<const ConstBytes> pieces) {
  const std::uint64_t lent = pipe.sent - pipe.reported;  // these are before the pieces
  std::vector<ConstBytes> fresh;
  std::uint64_t skipped = 0;
  for (const ConstBytes piece : pieces) {
    const std::size_t known = std::min<std::uint64_t>(piece.size(), lent - skipped);
    skipped += known;
    fresh.push_back(piece.subspan(known));
  }
  push(pipe, fresh);
  const std::uint64_t before = pipe.reported;
  pipe.reported = pipe.lends ? std::max(pipe.reported, pipe.received) : pipe.sent;
  return pipe.reported - before;
}

void Simulation::push(Pipe& pipe, std::span<const ConstBytes> pieces) {
  const std::uint64_t bytes = shortened(std::min(room(pipe), total_bytes(pieces)));
  if (bytes > 0) add(pipe, bytes, pieces);
}

bool Simulation::is_faulty(const Pipe& pipe) const {
  return fault_.kind != Fault::Kind::none && pipe.from == fault_.from && pipe.to == fault_.to;
}

// The fault may happen in the middle of the next element; then there is no room for that element.
bool Simulation::nears_fault(const Pipe& pipe) const {
  return is_faulty(pipe) && pipe.sent + run::Execution::kMaxElemBytes > fault_.after_bytes;
}

// True if a rank that waits for room is woken: by room, an end, or because lent bytes have been received.
bool Simulation::may_send(const Pipe& pipe) const {
  return pipe.broken || pipe.closed || pipe.received > pipe.reported || room(pipe) > 0;
}
bool Simulation::may_receive(const Pipe& pipe) const {
  return pipe.broken || (pipe.closed && pipe.held == 0) || arrived(pipe) > 0;
}

std::uint64_t Simulation::room(const Pipe& pipe) const {
  if (pipe.broken || pipe.closed) throw Error(ErrorCode::network, "the simulated connection is broken");
  if (pipe.stalled_until > now_) return 0;
  const std::uint64_t room = weather_.capacity_bytes - pipe.held;
  if (is_faulty(pipe) && pipe.sent <= fault_.after_bytes) return std::min(room, fault_.after_bytes + 1 - pipe.sent);
  return room;
}

void Simulation::add(Pipe& pipe, std::uint64_t bytes, std::span<const ConstBytes> pieces) {
  Pipe::Batch batch{now_ + random_.from(0, weather_.max_delay), {}};
  if (!pipe.batches.empty()) batch.due = std::max(batch.due, pipe.batches.back().due);
  for (const ConstBytes piece : pieces) {
    const std::size_t part = std::min<std::uint64_t>(piece.size(), bytes - batch.bytes.size());
    batch.bytes.insert(batch.bytes.end(), piece.begin(), piece.begin() + std::ptrdiff_t(part));
  }
  pipe.sent += bytes;
  pipe.held += bytes;
  if (is_faulty(pipe) && pipe.sent == fault_.after_bytes + 1) strike(pipe, batch.bytes);
  pipe.batches.push_back(std::move(batch));
}

// The fault happens at the last of these bytes.
void Simulation::strike(Pipe& pipe, std::vector<std::byte>& fresh) {
  Pipe& back = this->pipe(pipe.group, pipe.to, pipe.from);
  switch (fault_.kind) {
    case Fault::Kind::none:
      break;
    case Fault::Kind::drop:
      pipe.broken = back.broken = true;
      break;
    case Fault::Kind::close:
      fresh.pop_back();
      pipe.held--;
      pipe.closed = back.closed = true;
      break;
    case Fault::Kind::garbage:
      fresh.back() ^= std::byte(1 << random_.below(8));
      break;
    case Fault::Kind::stall:
      pipe.stalled_until = back.stalled_until = kForever;
      break;
  }
}

// The number of bytes that can be received now.
std::uint64_t Simulation::arrived(const Pipe& pipe) const {
  if (pipe.broken) throw Error(ErrorCode::network, "the simulated connection is broken");
  if (pipe.stalled_until > now_) return 0;
  if (pipe.closed && pipe.held == 0) throw Error(ErrorCode::network, "the simulated connection was closed");
  std::uint64_t bytes = 0;
  for (const Pipe::Batch& batch : pipe.batches) bytes += batch.due <= now_ ? batch.bytes.size() : 0;
  return bytes;
}

std::size_t Simulation::receive(Pipe& pipe, std::span<const Bytes> pieces) {
  const std::uint64_t bytes = shortened(std::min(arrived(pipe), total_bytes(pieces)));
  take(pipe, pieces, bytes);
  return bytes;
}

void Simulation::take(Pipe& pipe, std::span<const Bytes> pieces, std::uint64_t bytes) {
  std::uint64_t left = bytes;
  for (Bytes piece : pieces)
    while (left > 0 && !piece.empty()) {
      std::vector<std::byte>& from = pipe.batches.front().bytes;
      const std::size_t part = std::min<std::uint64_t>({piece.size(), from.size(), left});
      std::copy_n(from.begin(), part, piece.begin());
      from.erase(from.begin(), from.begin() + std::ptrdiff_t(part));
      piece = piece.subspan(part);
      left -= part;
      while (!pipe.batches.empty() && pipe.batches.front().bytes.empty()) pipe.batches.pop_front();
    }
  pipe.held -= bytes;
  pipe.received += bytes;
}

// Copies the next bytes, without removing them from the pipe.
void Simulation::copy(const Pipe& pipe, Bytes to) {
  for (auto batch = pipe.batches.begin(); !to.empty(); ++batch) {
    const std::size_t part = std::min(to.size(), batch->bytes.size());
    std::copy_n(batch->bytes.begin(), part, to.begin());
    to = to.subspan(part);
  }
}

}  // namespace anello
