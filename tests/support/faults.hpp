// Injects faults into this process: an allocation or a thread that fails when it is requested. In a test that links
// this, operator new and pthread_create() are replaced. They fail only on threads that have called plan(), so ranks
// that are threads can have different faults.
#pragma once
#include <cstddef>
#include <cstdint>

namespace anello::faults {

inline constexpr std::size_t kLargeBytes = 64 << 10;

struct Plan {
  std::int64_t memory = -1;        // the allocation with this number, from 0 on, fails; negative: none
  std::int64_t large_memory = -1;  // likewise, the number of an allocation of at least kLargeBytes
  std::int64_t thread = -1;        // likewise, the number of a new thread
  bool for_ever = false;           // all later requests fail too
};

// Sets the faults of the calling thread. Returns true if a request has failed because of the previous plan.
bool plan(const Plan& plan);
// Makes the next `count` allocations of all threads but the calling one fail.
void fail_allocations_of_others(int count);

}  // namespace anello::faults
