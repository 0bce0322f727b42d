// An allreduce of tensors that other ranks cannot map, between the ranks of one host, slab by slab: each rank copies
// its input into a stage that all can read, adds up one chunk of the inputs of all ranks, in rank order, and copies the
// other chunks of the result from the stages of the other ranks. One slab of three ranks:
//
//   rank 0    | chunks 1, 2 of its input -> stage | chunk 0 of all inputs -> output, stage | chunks 1, 2 -> output |
//   rank 1    | chunks 0, 2 of its input -> stage | chunk 1 of all inputs -> output, stage | chunks 0, 2 -> output |
//
// Each of n ranks copies 2 (n-1)/n of its tensor: half of that in, and half out. In the ring, a rank copies twice this
// amount. A stage has two slots, so that a rank can copy the next slab in while others still read the last one.
// Shared-memory collectives of this kind are described for example by Graham and Shipman, "MPI Support for Multi-core
// Architectures" (2008).
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "ring/group/posts.hpp"
#include "ring/group/stage.hpp"
#include "ring/plan/plan.hpp"
#include "ring/run/carrier.hpp"
#include "ring/run/fold.hpp"
#include "ring/shm/shared_copier.hpp"

namespace anello::group {

class StagedAllreduce final : public run::Carrier {
 public:
  // `rank`: this process's rank among `size` ranks, two to eight. `posts` must outlive this object.
  StagedAllreduce(int rank, int size, Posts& posts);

  // Allocates the stage at the first call. True if the operation suits this carrier, and there is a stage. `slab_bytes`
  // must be equal in all calls and on all ranks.
  bool prepare(const run::Load& load, std::size_t slab_bytes);

  // Copies the first slab in, and posts the stage. The peers' links must be connected to the posts.
  void begin(const run::Load& load) override;
  bool pass() override;
  bool send() override { return false; }
  bool want(link::Waiter&) override { return may_sleep(); }  // the peers ring the bell
  bool may_sleep();
  std::vector<int> awaited() const override;
  // Does nothing: the peers read only the stage, which is not used any more after a failure.
  void give_up() override {}
  std::pair<std::uint64_t, std::uint64_t> progress() const override;  // bytes of results
  Moved moved() const override;

 private:
  struct Peer {
    std::size_t rank;
    StageView stage;
  };
  using Slabs = std::uint64_t;  // a number of slabs of the operation

  bool meet();         // checks whether all ranks have posted their stages
  void find_stages();  // finds the stages of the peers
  bool move();
  // The three parts of the work on a slab. Each function does its part for its next slab, if that is possible now;
  // otherwise it returns false.
  bool copy_in();
  bool make();
  bool take();
  void copy_in_slab();
  void make_chunk();
  void take_chunk(const Peer& peer);
  // Shows the peers how many slabs this rank has done, and wakes the peers that sleep.
  void publish(std::atomic<std::uint64_t>& counter, Slabs slabs);

  bool may_copy_in() const { return copied_ < slabs_ && copied_ < taken_ + 2; }
  bool lets_make(const Peer& peer) const;
  bool may_make() const;
  bool may_take(const Peer& peer) const;
  bool can_move() const;

  // Returns the elements of a slab, or of a rank's chunk of the slab.
  plan::Range slab(Slabs number) const;
  plan::Range chunk(Slabs number, std::size_t rank) const;

  std::size_t rank_, size_;
  Posts& posts_;
  Stage stage_;
  // Copy into the stage: a chunk of inputs with the copier of the rank that reads it, results with that of this rank.
  std::array<shm::SharedCopier, 8> copiers_;
  std::vector<Peer> peers_;
  run::Load load_;
  bool met_ = false, slept_ = false, is_list_ = false;
  std::uint64_t before_ = 0;  // slabs of earlier operations of the group
  std::uint64_t elems_ = 0, slab_elems_ = 0;
  Slabs slabs_ = 0, copied_ = 0, made_ = 0, taken_ = 0;
  std::uint32_t taken_from_ = 0;  // a bit for each rank whose chunk of the slab `taken_` is in the output
  alignas(64) std::array<std::byte, run::kFoldBytes> partial_;
};

}  // namespace anello::group
