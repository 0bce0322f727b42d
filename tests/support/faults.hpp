// Faults of this process, made on purpose: memory, a descriptor or a thread that is not there when it is asked for. A
// test that links this has its operator new, memfd_create() and pthread_create() replaced. They fail only on threads
// that asked for it, so ranks that are threads can have faults of their own.
#pragma once
#include <cstdint>

namespace anello::faults {

struct Plan {
  std::int64_t memory = -1;      // the allocation with this number, from 0 on, fails; negative: none
  std::int64_t descriptor = -1;  // the same for new memory that is to be shared
  std::int64_t thread = -1;      // and for a thread
  bool for_ever = false;         // all later ones fail too
};

// From now on, of the calling thread. Returns whether the plan before this one has had its effect.
bool plan(const Plan& plan);
// Makes the next `count` allocations of all threads but the calling one fail.
void fail_allocations_of_others(int count);

}  // namespace anello::faults
