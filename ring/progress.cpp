#include "ring/progress.hpp"

#include <anello/error.hpp>

namespace anello {
namespace {

constexpr int kMisses = 2;
constexpr std::size_t kPieces = 15;  // of data in one send; the signature is one more

// What is below knows nothing of ranks; its errors get theirs here.
template <class Work>
auto with_rank(int peer, Work work) {
  try {
    return work();
  } catch (const Error& e) {
    throw Error(e.code(), e.message(), peer);
  }
}

}  // namespace

void Progress::start(Execution& execution, const Signature& signature, std::span<Link* const> links) {
  execution_ = &execution;
  links_ = links;
  signature_ = signature;
  outgoing_ = encode(signature);
  if (peers_.size() < links.size()) peers_.resize(links.size());
  const auto& streams = execution.plan().streams;
  first_receive_ = end_receives_ = 0;
  for (const Stream& stream : streams) {
    if (stream.kind == Stream::Kind::local) break;
    Peer& peer = peers_[std::size_t(stream.peer)];
    peer.signature_sent = peer.signature_received = 0;
    first_receive_ += stream.kind == Stream::Kind::send;
    end_receives_++;
  }
}

bool Progress::send_some(std::uint32_t s) {
  std::array<ConstBytes, kPieces + 1> pieces;
  const std::size_t count = execution_->sendable(s, std::span(pieces).subspan(1));
  if (count == 0) return false;
  const int rank = execution_->plan().streams[s].peer;
  Peer& peer = peers_[std::size_t(rank)];
  Link& link = *links_[std::size_t(rank)];
  const std::size_t ahead = kSignatureBytes - peer.signature_sent;
  std::span<const ConstBytes> all = std::span(pieces).subspan(1, count);
  if (ahead > 0) {
    pieces[0] = std::as_bytes(std::span(outgoing_)).subspan(peer.signature_sent);
    all = std::span(pieces).first(count + 1);
  }
  const std::size_t bytes = with_rank(rank, [&] { return link.send_from(all); });
  const std::size_t of_signature = std::min(bytes, ahead);
  peer.signature_sent += of_signature;
  if (bytes > of_signature) execution_->sent(s, bytes - of_signature);
  return bytes > 0;
}

// Counts what came of the signature and checks it once it is complete. Returns the bytes of data behind it.
std::size_t Progress::take_signature(Peer& peer, int rank, std::size_t bytes) {
  const std::size_t of_signature = std::min(bytes, kSignatureBytes - peer.signature_received);
  peer.signature_received += of_signature;
  if (peer.signature_received < kSignatureBytes || peer.incoming == outgoing_) return bytes - of_signature;
  const std::string_view theirs(peer.incoming.data(), kSignatureBytes);
  throw Error(Code::mismatch, explain_(rank, with_rank(rank, [&] { return decode_signature(theirs); })), rank);
}

bool Progress::receive_some(std::uint32_t s, int& misses) {
  const Bytes place = execution_->receivable(s);
  if (place.empty()) return false;
  const int rank = execution_->plan().streams[s].peer;
  Peer& peer = peers_[std::size_t(rank)];
  Link& link = *links_[std::size_t(rank)];
  const std::size_t ahead = kSignatureBytes - peer.signature_received;
  std::array<Bytes, 2> pieces = {std::as_writable_bytes(std::span(peer.incoming)).subspan(peer.signature_received),
                                 place};
  const std::span<const Bytes> all = std::span(pieces).subspan(ahead > 0 ? 0 : 1);
  std::size_t bytes = with_rank(rank, [&] { return link.recv_into(all); });
  if (bytes == 0) return misses++, false;
  if (ahead > 0) bytes = take_signature(peer, rank, bytes);
  if (bytes > 0) execution_->received(s, bytes);
  return true;
}

bool Progress::receive_all() {
  int misses = 0;
  std::uint32_t first = end_receives_;
  for (std::uint32_t s = first_receive_; s < end_receives_; s++) {
    if (execution_->ended(s)) continue;
    if (first == end_receives_ || execution_->current(s).order < execution_->current(first).order) first = s;
  }
  if (first == end_receives_) return false;
  bool moved = receive_some(first, misses);
  if (turn_ < first_receive_ || turn_ >= end_receives_) turn_ = first_receive_;
  for (std::uint32_t k = first_receive_; k < end_receives_ && misses < kMisses; k++) {
    if (turn_ != first) moved |= receive_some(turn_, misses);
    if (++turn_ == end_receives_) turn_ = first_receive_;
  }
  return moved;
}

bool Progress::pass() {
  bool moved = false;
  for (std::uint32_t s = 0; s < first_receive_; s++) moved |= send_some(s);
  moved |= receive_all();
  if (end_receives_ < execution_->plan().streams.size()) moved |= execution_->compute();
  return moved;
}

}  // namespace anello
