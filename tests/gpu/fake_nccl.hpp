// NCCL made of a group's own collectives, which fake kernels carry out: right results in the stream's order, and every
// way to go wrong that NCCL has. A rank is a thread; what is said here is about its newest communicator.
#pragma once
#include <anello/group.hpp>
#include <string>

#include "gpu/nccl_table.h"

namespace anello::gpu::fake {

const AnelloNcclTable* find_nccl(const char** why_not);  // as in AnelloGpuTable
const AnelloNcclTable& nccl_table();

// What this thread's next communicator moves its bytes with: a group that nothing else uses.
void nccl_moves_with(Group group);

struct NcclFaults {
  std::string missing;  // it cannot be loaded, and this is why
  int version = 22809;
  int looks = 0;              // each call is in progress for so many
  bool never_there = false;   // the communicator is not made, ever
  bool refuses = false;       // to make a communicator
  bool kernels_hang = false;  // until the communicator is aborted
  int abort_takes_ms = 0;
};
NcclFaults& nccl_faults();  // of this thread, for communicators it makes from now on

void nccl_breaks();  // the newest communicator reports an error from now on
int nccl_alive();    // communicators, of all threads
int nccl_aborted();  // so many were, in all

}  // namespace anello::gpu::fake
