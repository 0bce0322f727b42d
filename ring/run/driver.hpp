// Moves one execution forward over links: decides which stream is served first, and sends the signature before the data
// on each link. One pass at a time. Never waits and reads no clock, so it also runs over simulated links.
#pragma once
#include <array>
#include <vector>

#include "ring/link/memory_link.hpp"
#include "ring/run/execution.hpp"
#include "ring/run/message_header.hpp"
#include "ring/run/receive_turns.hpp"
#include "ring/run/step_trace.hpp"

namespace anello::run {

class Driver {
 public:
  explicit Driver(Explain explain) : explain_(std::move(explain)) {}

  // `links`: by rank; the links to the plan's peers must be set. The execution must have been started. `trace`: if not
  // null, records the execution's steps.
  void start(Execution& execution, const Signature& signature, std::span<link::Link* const> links,
             StepTrace* trace = nullptr);

  // Makes one pass. First sends everything that can be sent. Then tries the receive that is first in program order, and
  // after it the other receives in turn. When two receives have found no data, stops, because another process should
  // get the core then. Finally does local work. Returns true if anything moved. Throws Error{network, protocol} with
  // the peer's rank, and the error that `explain` returns.
  bool pass();
  // The first part of a pass: sends everything that can be sent now.
  bool send();

  // Calls want(link, wanted) for every link on which the next pass depends.
  template <class Want>
  void each_wanted(Want want) const;

 private:
  // Pieces in one call of a link; the first one is reserved for the signature.
  static constexpr std::size_t kPieces = 512;
  struct Peer {
    EncodedSignature incoming;
    link::MemoryLink* memory = nullptr;  // the link, if it goes through memory
    std::size_t signature_sent = 0, signature_received = 0;
  };
  std::span<const ConstBytes> put_signature_first(const Peer& peer, const link::Link& link,
                                                  std::span<ConstBytes> pieces, std::size_t count);
  std::size_t receive_first(Peer& peer, int rank, std::span<Bytes> pieces);
  std::size_t receive(std::uint32_t s, int rank, std::span<Bytes> pieces);
  std::size_t receive_in_place(std::uint32_t s, int rank);
  void take_signature(Peer& peer, int rank, ConstBytes bytes);
  bool is_reply(std::uint32_t s) const {  // true if stream `s` receives a reply next
    const Peer& peer = peers_[std::size_t(execution_->plan().streams[s].peer)];
    return peer.signature_received == kSignatureBytes && execution_->expects_reply(s);
  }
  bool send_signature(Peer& peer, link::Link& link);
  bool send_some(std::uint32_t s);
  bool send_made(std::uint32_t s, Peer& peer, Bytes room);
  bool send_pieces(std::uint32_t s, Peer& peer, link::Link& link);
  Look receive_some(std::uint32_t s);

  Explain explain_;
  Execution* execution_ = nullptr;
  std::span<link::Link* const> links_;
  StepTrace* trace_ = nullptr;
  bool replies_ = false;
  EncodedSignature outgoing_;
  std::array<std::byte, kSignatureBytes + kJoinedBytes> first_;  // a signature and the first data
  std::vector<ConstBytes> outgoing_pieces_ = std::vector<ConstBytes>(kPieces);
  std::vector<Bytes> incoming_pieces_ = std::vector<Bytes>(kPieces);
  std::vector<Peer> peers_;                             // by rank
  std::uint32_t first_receive_ = 0, end_receives_ = 0;  // range of the streams that receive
  ReceiveTurns turns_;
};

template <class Want>
void Driver::each_wanted(Want want) const {
  const auto& streams = execution_->plan().streams;
  std::array<Bytes, 1> place;
  for (std::uint32_t s = 0; s < end_receives_; s++) {
    link::Link& link = *links_[std::size_t(streams[s].peer)];
    if (s < first_receive_ && execution_->can_send(s)) want(link, link::Wanted::room);
    if (s >= first_receive_ && execution_->receivable(s, place) > 0)
      want(link, is_reply(s) ? link::Wanted::reply : link::Wanted::bytes);
  }
}

}  // namespace anello::run
