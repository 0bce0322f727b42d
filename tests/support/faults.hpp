// Faults of this process, made on purpose: memory or a descriptor that is not there when it is asked for. A test that
// links this has its operator new and memfd_create() replaced. They fail only on threads that asked for it, so ranks
// that are threads can have faults of their own.
#pragma once
#include <cstdint>

namespace anello::faults {

struct Plan {
  std::int64_t memory = -1;      // the allocation with this number, from 0 on, fails; negative: none
  std::int64_t descriptor = -1;  // the same for new memory that is to be shared
  bool for_ever = false;         // all later ones fail too
};

// From now on, of the calling thread. Returns whether the plan before this one has had its effect.
bool plan(const Plan& plan);

}  // namespace anello::faults
