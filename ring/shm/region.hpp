// The memory that anello::allocate gave to this process, as files that other processes can map. Any thread.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>

#include "ring/base/bytes.hpp"

namespace anello::shm {

// Where a run of bytes lies: in which region, and at which offset.
struct Place {
  std::uint64_t region = 0;  // a number for each allocation, never used again
  std::uint64_t offset = 0, bytes = 0;
  friend bool operator==(const Place&, const Place&) = default;
};

// Bytes that a peer may read, and what keeps them as they are meanwhile: memory that is deallocated goes with the last
// loan.
struct Loan {
  Place place;
  std::shared_ptr<const void> memory;
};
// Nothing unless all of the bytes lie in one allocation.
std::optional<Loan> lend(ConstBytes run);

// The file and the size of a region that is allocated. The descriptor stays the region's.
struct RegionFile {
  int descriptor = -1;
  std::size_t bytes = 0;
};
RegionFile file_of(std::uint64_t region);

}  // namespace anello::shm
