// The memory that anello::allocate gave to this process, as others can map it. Any thread.
#pragma once
#include <cstdint>
#include <optional>

#include "ring/base/bytes.hpp"

namespace anello {

// Where a run of bytes lies: so far into which region.
struct Place {
  std::uint64_t region = 0;  // one number for one allocation, never again for another
  std::uint64_t offset = 0, bytes = 0;
  friend bool operator==(const Place&, const Place&) = default;
};

// Nothing for bytes that are not, all of them, in one allocation.
std::optional<Place> place_of(ConstBytes run);

// Of a region that is there: its file, which stays the region's, and its size.
struct RegionFile {
  int descriptor = -1;
  std::size_t bytes = 0;
};
RegionFile file_of(std::uint64_t region);

}  // namespace anello
