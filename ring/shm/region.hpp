// The memory that anello::allocate gave to this process, as files that other processes can map. Any thread.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>

#include "ring/base/bytes.hpp"

namespace anello::shm {

// The place of a run of bytes: its region, and the offset in it.
struct Place {
  std::uint64_t region = 0;  // number of the allocation; never used again
  std::uint64_t offset = 0, bytes = 0;
  friend bool operator==(const Place&, const Place&) = default;
};

// Bytes that a peer may read, and a reference that keeps them: memory that is deallocated is freed with its last loan.
struct Loan {
  Place place;
  std::shared_ptr<const void> memory;
};
// Lends a run of bytes; empty unless all of them are in one allocation.
std::optional<Loan> lend(ConstBytes run);

// The file and the size of an existing region. The descriptor belongs to the region.
struct RegionFile {
  int descriptor = -1;
  std::size_t bytes = 0;
};
RegionFile file_of(std::uint64_t region);

}  // namespace anello::shm
