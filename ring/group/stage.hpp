// Memory of one rank of a group into which it copies parts of its tensors, so that the other ranks of its host can read
// them there: two slots, which hold slabs in turn, and counters. Only the owner writes.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "ring/shm/region.hpp"

namespace anello::group {

// Counters since the group began. `copied`: the number of slabs that this rank has copied in. `made`: the number of
// slabs in which this rank has added up its chunk. All ranks of a group count the same slabs.
struct StageCounters {
  alignas(64) std::atomic<std::uint64_t> copied;
  alignas(64) std::atomic<std::uint64_t> made;
};

// Where a stage is mapped in this process; the memory belongs to the rank.
struct StageView {
  std::byte* memory = nullptr;
  std::size_t slab_bytes = 0;

  StageCounters& counters() const { return *reinterpret_cast<StageCounters*>(memory); }
  // input(): where the input of a slab lies; an element has the same offset as in the slab. result(): where the result
  // of the owner's chunk lies.
  std::byte* input(std::uint64_t slab) const { return slot(slab); }
  std::byte* result(std::uint64_t slab) const { return slot(slab) + slab_bytes; }

  // A chunk is at most half of a slab, rounded up to whole cache lines.
  std::size_t slot_bytes() const { return slab_bytes + slab_bytes / 2 + kPage; }
  std::size_t bytes() const { return kPage + 2 * slot_bytes(); }

 private:
  static constexpr std::size_t kPage = 4096;
  std::byte* slot(std::uint64_t slab) const { return memory + kPage + slab % 2 * slot_bytes(); }
};

class Stage {
 public:
  Stage() = default;
  ~Stage();  // leaves the contents to ranks that still read them
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  // Allocates the memory at the first call. Returns false if the first call did not get the memory.
  bool make(std::size_t slab_bytes);
  const StageView& view() const { return view_; }
  const shm::Place& place() const { return loan_.place; }

 private:
  StageView view_;
  shm::Loan loan_;
  bool failed_ = false;
};

}  // namespace anello::group
