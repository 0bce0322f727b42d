// An allreduce of tensors that lie in memory which all ranks of the group have mapped: each rank reduces one chunk from
// where the inputs lie, in rank order, and writes the result to all outputs.
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
#include "ring/link/link.hpp"
#include "ring/run/arithmetic.hpp"
#include "ring/run/buffer.hpp"
#include "ring/run/fold.hpp"
#include "ring/shm/region.hpp"
#include "ring/shm/window.hpp"

namespace anello::group {

class DirectAllreduce {
 public:
  // Makes the error for a signature that differs from this rank's.
  using Explain = std::function<Error(int peer, const Signature& theirs)>;

  // `rank` is this one of `size`, two or more.
  DirectAllreduce(int rank, int size, Explain explain);

  // The next operation; its tensors and `scaling` (null: none) are borrowed until it is done or given up.
  void start(const run::Arithmetic& arithmetic, const run::Scaling* scaling, const run::Buffer& input,
             const run::Buffer& output, std::uint64_t elems);
  // The next operation is another one.
  void clear();
  // Whether this rank's tensors lie where others can map them.
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
  std::pair<std::uint64_t, std::uint64_t> progress() const;  // bytes reduced so far and in all

  std::uint64_t bytes() const { return elems_ << arithmetic_.shift; }  // of a tensor
  // That this rank read from the others and wrote to them, each counted once; the others moved as much here, or nearly.
  std::uint64_t bytes_moved() const { return 2 * (windows_.size() - 1) * progress().second; }

 private:
  static constexpr std::uint64_t kBiteBytes = 64 << 10;  // reduced between two looks at what else goes on
  enum class State { idle, meeting, reducing, ending, done };

  void post_to(shm::Window& window);
  void await_all(State state);
  bool meet();
  void begin();
  void reduce();
  void reduce_block(std::uint64_t at, std::uint64_t elems);
  void check_not_withdrawn() const;
  bool end();
  template <class Use>
  void each_window(Use use) const {  // use(peer, window)
    for (std::size_t peer = 0; peer < windows_.size(); peer++)
      if (windows_[peer]) use(peer, *windows_[peer]);
  }

  int rank_;
  std::vector<shm::Window*> windows_;  // by peer; null for this rank, and where there is none
  Explain explain_;
  std::vector<bool> connected_;  // by peer
  std::size_t missing_;          // links

  State state_ = State::idle;
  run::Arithmetic arithmetic_;
  const run::Scaling* scaling_ = nullptr;
  std::vector<shm::Loan> loans_;  // of the input and the output, if these can be shown
  shm::Window::Places places_;
  std::uint64_t number_ = 0;
  shm::EncodedSignature signature_{};
  std::vector<std::size_t> awaited_;      // peers
  std::vector<const std::byte*> inputs_;  // by rank
  std::vector<std::byte*> outputs_;       // by rank
  std::uint64_t elems_ = 0;
  std::uint64_t begin_ = 0, at_ = 0, end_ = 0;  // this rank's chunk, and how far it is
  alignas(64) std::array<std::byte, run::kFoldBytes> partial_;
};

template <class Want>
void DirectAllreduce::each_awaited(Want want) const {
  for (const std::size_t peer : awaited_) want(int(peer));
}

}  // namespace anello::group
