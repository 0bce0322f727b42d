#include "ring/run/driver.hpp"

#include <algorithm>
#include <cstring>

namespace anello::run {

static_assert(kSignatureBytes % Execution::kMaxElemBytes == 0, "elements after the signature must be aligned");

void Driver::start(Execution& execution, const Signature& signature, std::span<link::Link* const> links,
                   StepTrace* trace) {
  trace_ = trace;
  execution_ = &execution;
  links_ = links;
  encode(signature, outgoing_);
  if (peers_.size() < links.size()) peers_.resize(links.size());
  const auto& streams = execution.plan().streams;
  first_receive_ = end_receives_ = 0;
  link::MemoryLink* const gives =
      execution.plan().reply_elems > 0 ? links[std::size_t(streams[0].peer)]->memory() : nullptr;
  replies_ = gives && execution.use_replies(gives->reply_bytes());
  for (const plan::Stream& stream : streams) {
    if (stream.kind == plan::Stream::Kind::local) break;
    Peer& peer = peers_[std::size_t(stream.peer)];
    peer.signature_sent = peer.signature_received = 0;
    peer.memory = links[std::size_t(stream.peer)]->memory();
    const bool sends = stream.kind == plan::Stream::Kind::send;
    links[std::size_t(stream.peer)]->begin(sends, !execution.plan().pairwise && !replies_);
    first_receive_ += sends;
    end_receives_++;
  }
  turns_.start(first_receive_, end_receives_);
}

// Puts the signature in front of the first data. If there is little data and the link prefers one piece, copies both
// into one run of memory: a system call with one run is cheaper than one with two.
std::span<const ConstBytes> Driver::put_signature_first(const Peer& peer, const link::Link& link,
                                                        std::span<ConstBytes> pieces, std::size_t count) {
  const ConstBytes signature = std::as_bytes(std::span(outgoing_)).subspan(peer.signature_sent);
  pieces[0] = signature;
  const bool little = count == 1 && pieces[1].size() <= kJoinedBytes;
  if (!little || !link.prefers_one_piece()) return pieces.first(count + 1);
  pieces[0] = joined(signature, pieces[1], first_.data());
  return pieces.first(1);
}

// Sends the signature without data. Replies need this, and so does data that is computed in the link's memory. Returns
// true if the whole signature has been sent.
bool Driver::send_signature(Peer& peer, link::Link& link) {
  if (peer.signature_sent == kSignatureBytes) return true;
  const std::array<ConstBytes, 1> piece{std::as_bytes(std::span(outgoing_)).subspan(peer.signature_sent)};
  peer.signature_sent += link.send_from(piece);
  if (peer.signature_sent < kSignatureBytes) return false;
  if (replies_) peer.memory->keep();
  return true;
}

bool Driver::send_some(std::uint32_t s) {
  if (execution_->ended(s)) return false;
  const int rank = execution_->plan().streams[s].peer;
  Peer& peer = peers_[std::size_t(rank)];
  link::Link& link = *links_[std::size_t(rank)];
  const bool moved = link::with_rank(rank, [&] {
    const std::size_t bytes = execution_->to_make(s);
    const std::optional<Bytes> room = bytes > 0 && peer.memory ? peer.memory->room(bytes) : std::nullopt;
    return room ? send_made(s, peer, *room) : send_pieces(s, peer, link);
  });
  if (trace_) trace_->look(s);
  return moved;
}

bool Driver::send_made(std::uint32_t s, Peer& peer, Bytes room) {
  link::MemoryLink& link = *peer.memory;
  const std::size_t before = peer.signature_sent;
  if (!send_signature(peer, link)) return peer.signature_sent > before;
  // The data comes after the signature.
  if (before < kSignatureBytes) room = link.room(execution_->to_make(s)).value_or(Bytes());
  const std::size_t made = execution_->fill(s, room);
  if (made > 0) link.put(made);
  return made > 0 || peer.signature_sent > before;
}

bool Driver::send_pieces(std::uint32_t s, Peer& peer, link::Link& link) {
  const std::span<ConstBytes> pieces = outgoing_pieces_;
  const std::size_t max_bytes = execution_->is_list() ? link.send_bytes() : SIZE_MAX;
  const std::size_t count = execution_->sendable(s, pieces.subspan(1), max_bytes);
  if (count == 0) return false;
  if (replies_ && !send_signature(peer, link)) return false;
  const std::size_t ahead = kSignatureBytes - peer.signature_sent;
  std::span<const ConstBytes> all = pieces.subspan(1, count);
  if (ahead > 0) all = put_signature_first(peer, link, pieces, count);
  const std::size_t bytes = link.send_from(all);
  const std::size_t of_signature = std::min(bytes, ahead);
  peer.signature_sent += of_signature;
  if (bytes > of_signature) execution_->sent(s, bytes - of_signature);
  return bytes > 0;
}

// Receives the rest of a peer's signature and the data after it with one system call. With a separate call for the
// signature, the peer's core would go on to other work before the data is received. A small amount of data is received
// into one run of memory together with the signature.
std::size_t Driver::receive_first(Peer& peer, int rank, std::span<Bytes> pieces) {
  const std::size_t ahead = kSignatureBytes - peer.signature_received;
  const Bytes rest = std::as_writable_bytes(std::span(peer.incoming)).subspan(peer.signature_received);
  const Bytes place = pieces[1];
  const bool little = pieces.size() == 2 && place.size() <= kJoinedBytes;
  pieces[0] = little ? std::span(first_).first(ahead + place.size()) : rest;
  if (little) pieces = pieces.first(1);
  const std::size_t bytes = link::with_rank(rank, [&] { return links_[std::size_t(rank)]->recv_into(pieces); });
  const std::size_t of_signature = std::min(bytes, ahead);
  if (little) std::memcpy(rest.data(), first_.data(), of_signature);
  peer.signature_received += of_signature;
  if (of_signature == ahead) check_signature(outgoing_, std::as_bytes(std::span(peer.incoming)), rank, explain_);
  if (little) std::memcpy(place.data(), first_.data() + of_signature, bytes - of_signature);
  return bytes;
}

// Compares a signature that has arrived whole without copying it: nearly all signatures are equal.
void Driver::take_signature(Peer& peer, int rank, ConstBytes bytes) {
  if (bytes.size() == kSignatureBytes && std::memcmp(bytes.data(), outgoing_.data(), kSignatureBytes) == 0) {
    peer.signature_received = kSignatureBytes;
    return;
  }
  std::memcpy(peer.incoming.data() + peer.signature_received, bytes.data(), bytes.size());
  peer.signature_received += bytes.size();
  if (peer.signature_received == kSignatureBytes)
    check_signature(outgoing_, std::as_bytes(std::span(peer.incoming)), rank, explain_);
}

// Receives into all pieces except the first, which is for the signature.
std::size_t Driver::receive(std::uint32_t s, int rank, std::span<Bytes> pieces) {
  Peer& peer = peers_[std::size_t(rank)];
  const std::size_t ahead = kSignatureBytes - peer.signature_received;
  const std::size_t bytes =
      ahead > 0 ? receive_first(peer, rank, pieces)
                : link::with_rank(rank, [&] { return links_[std::size_t(rank)]->recv_into(pieces.subspan(1)); });
  if (bytes > ahead) execution_->received(s, bytes - ahead);
  return bytes;
}

// Uses the data directly in the link's memory, so that data for a reduction is never copied.
std::size_t Driver::receive_in_place(std::uint32_t s, int rank) {
  Peer& peer = peers_[std::size_t(rank)];
  link::MemoryLink& link = *peer.memory;
  const bool reply = is_reply(s);
  Bytes run = link::with_rank(rank, [&] { return reply ? link.replies() : link.peek(); });
  const std::size_t of_signature = std::min(run.size(), kSignatureBytes - peer.signature_received);
  if (of_signature > 0) {
    take_signature(peer, rank, run.first(of_signature));
    run = run.subspan(of_signature);
  }
  const std::size_t bytes = of_signature + execution_->accept(s, run);
  if (bytes > 0) link::with_rank(rank, [&] { reply ? link.take(bytes) : link.consume(bytes); });
  return bytes;
}

Look Driver::receive_some(std::uint32_t s) {
  if (execution_->ended(s)) return Look::skipped;
  const int rank = execution_->plan().streams[s].peer;
  std::size_t bytes = 0;
  if (peers_[std::size_t(rank)].memory) {
    bytes = receive_in_place(s, rank);
  } else {
    const std::span<Bytes> pieces = incoming_pieces_;
    const std::size_t count = execution_->receivable(s, pieces.subspan(1));
    if (count == 0) return Look::skipped;
    bytes = receive(s, rank, pieces.first(1 + count));
  }
  if (trace_) trace_->look(s);
  return bytes > 0 ? Look::moved : Look::missed;
}

bool Driver::send() {
  bool moved = false;
  if (trace_) trace_->mark();
  for (std::uint32_t s = 0; s < first_receive_; s++) moved |= send_some(s);
  return moved;
}

bool Driver::pass() {
  bool moved = send();
  const auto order_of = [this](std::uint32_t s) {
    return execution_->ended(s) ? ReceiveTurns::kEnded : execution_->current(s).order;
  };
  moved |= turns_.pass(order_of, [this](std::uint32_t s) { return receive_some(s); });
  if (end_receives_ == execution_->plan().streams.size()) return moved;
  moved |= execution_->compute();
  if (trace_) trace_->look_at_local();
  return moved;
}

}  // namespace anello::run
