// A collective on tensors in memory that all ranks of the group have mapped: each rank computes its part of the results
// directly from the inputs, reduced in rank order, and writes it directly to the outputs (direct_parts.hpp). An
// allreduce:
//
//   rank 0    | post | wait for posts | chunk 0 of all inputs -> chunk 0 of all outputs | end | wait for ends |
//   rank 1    | post | wait for posts | chunk 1 of all inputs -> chunk 1 of all outputs | end | wait for ends |
//
// The ranks agree by their posts to use the direct way. If a post does not show the rank's tensors, because they lie in
// memory that cannot be mapped, all ranks refuse the direct way before any data has moved. A rank completes only when
// all ranks have ended, so nothing is read or written after that. Makes no system call except to pass a tensor's file
// descriptor. Only one thread may be in pass() at a time.
#pragma once
#include <array>
#include <vector>

#include "ring/group/direct_parts.hpp"
#include "ring/group/posts.hpp"
#include "ring/run/carrier.hpp"
#include "ring/run/fold.hpp"
#include "ring/shm/region.hpp"
#include "ring/shm/window.hpp"

namespace anello::group {

class DirectCollective final : public run::Carrier {
 public:
  // `rank`: this process's rank among `size` ranks, at least two. `posts` must outlive this object.
  DirectCollective(int rank, int size, Posts& posts);

  // Prepares `operation`, whose elements are sent in their own type. `input` replaces operation.input. The tensors and
  // `scaling` (null: none) are borrowed until the operation is done or given up.
  void start(const Call& operation, const run::Buffer& input, const run::Arithmetic& arithmetic,
             const run::Scaling* scaling);
  void clear();
  // True if this rank's tensors are in memory that other ranks can map, as far as these ranks use the tensors.
  bool may_show() const { return !loans_.empty(); }

  // Shows this rank's tensors to the peers. Their links must be connected to the posts.
  void begin(const run::Load& load) override;
  void post(const Signature& signature);

  bool active() const { return state_ != State::idle; }  // true if this rank has posted its tensors and no rank refused
  // Throws like Carrier::pass(), and also the error that `explain` returns. If a peer does not show its tensors,
  // refused() is true afterwards.
  bool pass() override;
  bool send() override { return false; }
  std::vector<int> awaited() const override;
  bool may_sleep();
  bool want(link::Waiter&) override { return may_sleep(); }  // the peers ring the bell
  bool goes_on_after_failure() const override { return false; }

  // Withdraws this rank's tensors. Blocks until no peer uses them, but at most 100 ms. After that, a peer that was
  // stopped in the middle of a copy may still write one block (kBiteBytes) when it continues.
  void give_up() override;
  std::pair<std::uint64_t, std::uint64_t> progress() const override;  // bytes of this rank's part
  // Counts the bytes that went from this rank's tensors to other ranks, and from their tensors to this rank, no matter
  // which rank copied them.
  Moved moved() const override;

 private:
  static constexpr std::uint64_t kBiteBytes = 64 << 10;  // maximum bytes of results that one call of pass() computes
  enum class State { idle, meeting, making, ending, ended };

  bool lend(const run::Buffer& tensor, std::uint64_t elems);
  bool take_turn();
  void record(std::uint64_t before);
  bool meet();
  void begin_making();
  void find_sources_and_destinations();
  void make();
  void make_block(std::uint64_t at, std::uint64_t elems);
  void check_not_withdrawn() const;
  bool end();

  int rank_;
  Posts& posts_;
  run::StepTrace* trace_ = nullptr;
  State state_ = State::idle;
  run::Arithmetic arithmetic_;
  const run::Scaling* scaling_ = nullptr;
  DirectParts parts_;
  std::vector<shm::Loan> loans_;  // the tensors that other ranks use; empty if one of these tensors cannot be shown
  shm::Window::Places places_;
  std::vector<std::size_t> unended_;           // the peers that have not ended the operation
  std::vector<shm::Window::Tensors> tensors_;  // by rank
  std::vector<const std::byte*> sources_;      // operands of this rank's part, in rank order
  std::vector<std::byte*> destinations_;       // this rank's own output is first, if it is written
  std::uint64_t at_ = 0, elems_ = 0;           // elements of this rank's part: done, total
  alignas(64) std::array<std::byte, run::kFoldBytes> partial_;
};

}  // namespace anello::group
