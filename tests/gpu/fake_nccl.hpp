// A fake NCCL made of a group's own collectives, which run on fake streams: right results in the stream's order, and
// all ways in which NCCL fails. It is as strict as NCCL 2.28: no call while another is in progress, one order of
// kernels for all streams of a communicator, no two ranks on one GPU, factors in the tensor's type, kernels that hang
// after the death of a peer until the communicator is aborted, and NCCL's error in reductions of one rank. Each rank is
// a thread; these functions are about the newest communicator of the calling thread.
#pragma once
#include <anello/group.hpp>
#include <string>

#include "gpu/nccl_table.h"

namespace anello::gpu::fake {

const AnelloNcclTable* find_nccl(const char** why_not);  // as in AnelloGpuTable
const AnelloNcclTable& nccl_table();

// Gives this thread's next communicator the group that moves its bytes; nothing else may use the group.
void nccl_moves_with(Group group);

struct NcclFaults {
  std::string missing;                  // if not empty: NCCL cannot be loaded, for this reason
  int version = 22809;                  // before 2.19 it cannot register memory
  int looks = 0;                        // number of state() calls for which each call is in progress
  bool groups_are_in_progress = false;  // a call between group_start() and group_end() is accepted, and in progress
  bool launches_hang = false;           // each call is in progress until the communicator is aborted
  bool never_there = false;             // making a communicator never ends
  bool refuses = false;                 // making a communicator fails
  bool kernels_hang = false;            // kernels hang until the communicator is aborted
  int abort_takes_ms = 0;
};
NcclFaults& nccl_faults();  // faults of the communicators that this thread makes from now on

void nccl_breaks();     // the newest communicator reports an error from now on
int nccl_alive();       // communicators, of all threads
int nccl_aborted();     // number of aborted communicators, in all threads
int nccl_registered();  // registered memories of all living communicators, of all threads

}  // namespace anello::gpu::fake
