// The memory that anello::allocate has allocated in this process, in files that other processes can map. Any thread.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>

#include "ring/base/bytes.hpp"

namespace anello::shm {

// Where a run of bytes lies: its region, and the offset in it.
struct Place {
  std::uint64_t region = 0;  // number of the allocation; a number is never used again
  std::uint64_t offset = 0, bytes = 0;
  friend bool operator==(const Place&, const Place&) = default;
};

// Bytes that a peer may read, and a reference that keeps their memory alive: deallocated memory is freed only when its
// last loan is destroyed.
struct Loan {
  Place place;
  std::shared_ptr<const void> memory;
};
// Lends a run of bytes. Returns an empty result if the bytes are not all in one allocation.
std::optional<Loan> lend(ConstBytes run);

// Frees memory from allocate() that other processes may still read: its pages are freed when the last of these
// processes has unmapped it.
void abandon(void* memory) noexcept;

// The file and the size of an existing region. The region owns the descriptor.
struct RegionFile {
  int descriptor = -1;
  std::size_t bytes = 0;
};
RegionFile file_of(std::uint64_t region);

}  // namespace anello::shm
