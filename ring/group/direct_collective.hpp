// A collective on tensors that lie in memory which all ranks of the group have mapped: each rank makes its part of the
// results from where the inputs lie, reduced in rank order, and writes it to where it belongs (direct_parts.hpp). An
// allreduce:
//
//   rank 0    | post | wait for posts | chunk 0 of all inputs -> chunk 0 of all outputs | end | wait for ends |
//   rank 1    | post | wait for posts | chunk 1 of all inputs -> chunk 1 of all outputs | end | wait for ends |
//
// The ranks agree on it by their posts: if one of them does not show its tensors, because they lie elsewhere, all
// refuse it, before anything has moved. A rank completes only when all have ended, so nothing is read or written after
// that. Makes no system call except to pass a tensor's file; one call of pass() at a time.
#pragma once
#include <anello/error.hpp>
#include <array>
#include <functional>
#include <vector>

#include "ring/base/signature.hpp"
#include "ring/group/direct_parts.hpp"
#include "ring/link/link.hpp"
#include "ring/run/arithmetic.hpp"
#include "ring/run/buffer.hpp"
#include "ring/run/fold.hpp"
#include "ring/run/message_header.hpp"
#include "ring/shm/region.hpp"
#include "ring/shm/window.hpp"

namespace anello::group {

class DirectCollective {
 public:
  // `rank` is this one of `size`, two or more.
  DirectCollective(int rank, int size, run::Explain explain);

  // The next operation, of elements that travel as they are; `input` is in place of its own. The tensors and `scaling`
  // (null: none) are borrowed until it is done or given up.
  void start(const Operation& operation, const run::Buffer& input, const run::Arithmetic& arithmetic,
             const run::Scaling* scaling);
  // The next operation is another one.
  void clear();
  // Whether this rank's tensors that others use lie where these can map them.
  bool may_show() const { return !loans_.empty(); }

  // The link to `peer` is there now. The others are missing.
  void connect(int peer, link::Link& link);
  bool is_missing(int peer) const { return peer != rank_ && !connected_[std::size_t(peer)]; }
  bool misses_any() const { return missing_ > 0; }
  // No link is missing.
  void post(const Signature& signature);

  bool active() const { return state_ != State::idle; }  // this rank's tensors were posted, and no rank has refused
  bool done() const { return state_ == State::done; }
  // Moves on if it can: true. Throws what `explain` returns, and Error{network, protocol} with the peer's rank. May
  // refuse: then it is not active.
  bool pass();
  // Calls want(peer) for every peer for which it waits.
  template <class Want>
  void each_awaited(Want want) const;
  // False if it can move on already.
  bool may_sleep();

  // No rank may use the tensors any more. Blocks until none does, for a short time at most: a peer that was stopped
  // while it wrote may write one more bite when it goes on.
  void give_up();
  std::pair<std::uint64_t, std::uint64_t> progress() const;  // bytes of this rank's part, so far and in all

  // From this rank's tensors to the others and from theirs to this one, whichever rank read or wrote them.
  struct Moved {
    std::uint64_t sent_bytes = 0, received_bytes = 0;
  };
  Moved moved() const;

 private:
  static constexpr std::uint64_t kBiteBytes = 64 << 10;  // of results made between two looks at what else goes on
  enum class State { idle, meeting, making, ending, done };

  bool lend(const run::Buffer& tensor, std::uint64_t elems);
  void await_all(State state);
  bool meet();
  void begin();
  void find_sources_and_destinations();
  void make();
  void make_block(std::uint64_t at, std::uint64_t elems);
  void check_not_withdrawn() const;
  bool end();
  template <class Use>
  void each_window(Use use) const {  // use(peer, window)
    for (std::size_t peer = 0; peer < windows_.size(); peer++)
      if (windows_[peer]) use(peer, *windows_[peer]);
  }

  int rank_;
  std::vector<shm::Window*> windows_;  // by peer; null for this rank, and where there is none
  run::Explain explain_;
  std::vector<bool> connected_;  // by peer
  std::size_t missing_;          // links

  State state_ = State::idle;
  run::Arithmetic arithmetic_;
  const run::Scaling* scaling_ = nullptr;
  DirectParts parts_;
  std::vector<shm::Loan> loans_;  // of the tensors that others use, if all of these can be shown
  shm::Window::Places places_;
  std::uint64_t number_ = 0;
  EncodedSignature signature_{};
  std::vector<std::size_t> awaited_;           // peers
  std::vector<shm::Window::Tensors> tensors_;  // by rank
  std::vector<const std::byte*> sources_;      // of this rank's part, in rank order
  std::vector<std::byte*> destinations_;       // the first is this rank's, if any is
  std::uint64_t at_ = 0, elems_ = 0;           // how far this rank's part is, and its size
  alignas(64) std::array<std::byte, run::kFoldBytes> partial_;
};

template <class Want>
void DirectCollective::each_awaited(Want want) const {
  for (const std::size_t peer : awaited_) want(int(peer));
}

}  // namespace anello::group
