// Keeps tensors in GPU memory out of calls that read host memory, where they would be a segmentation fault. Knows no
// GPU: a room above tells which memory is a device's, and is asked once for each 64 KiB of host memory in use. Any
// thread.
#pragma once
#include "ring/group/operation.hpp"

namespace anello::group {

// The number of the device whose memory this is; -1: host memory.
using DeviceOf = int (*)(const void* memory);

// From now on, of this process; null: all memory is the host's, as it is at first.
void tell_devices_by(DeviceOf device_of);

// Throws Error{invalid_argument} if a tensor is in a device's memory.
void require_host_memory(const Operation& operation);

}  // namespace anello::group
