// Keeps tensors in GPU memory out of calls that read host memory, where they would cause a segmentation fault. Contains
// no GPU code: a room above passes the function that recognizes GPU memory, which is called once for each 64 KiB of
// host memory in use. Any thread.
#pragma once
#include "ring/group/call.hpp"

namespace anello::group {

// Returns the number of the device that has this memory; -1: host memory.
using DeviceOf = int (*)(const void* memory);

// Sets the process's function that recognizes GPU memory. Null, the initial value: all memory is host memory.
void tell_devices_by(DeviceOf device_of);

// Throws Error{invalid_argument} if a tensor of the operation is in GPU memory.
void require_host_memory(const Call& call);

}  // namespace anello::group
