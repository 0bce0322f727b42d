// The memory that anello::allocate gave to this process, as files that other processes can map. Any thread.
#pragma once
#include <cstdint>
#include <optional>

#include "ring/base/bytes.hpp"

namespace anello::shm {

// Where a run of bytes lies: in which region, and at which offset.
struct Place {
  std::uint64_t region = 0;  // a number for each allocation, never used again
  std::uint64_t offset = 0, bytes = 0;
  friend bool operator==(const Place&, const Place&) = default;
};

// Nothing unless all of the bytes lie in one allocation.
std::optional<Place> place_of(ConstBytes run);

// The file and the size of a region that is allocated. The descriptor stays the region's.
struct RegionFile {
  int descriptor = -1;
  std::size_t bytes = 0;
};
RegionFile file_of(std::uint64_t region);

}  // namespace anello::shm
