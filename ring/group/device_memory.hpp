// Refuses tensors in GPU memory in calls that read host memory, because reading GPU memory would cause a segmentation
// fault. Contains no GPU code: the room gpu passes a function that recognizes GPU memory. That function is called once
// for each 64 KiB of host memory in use. Any thread.
#pragma once
#include "ring/group/call.hpp"

namespace anello::group {

// Returns the number of the device that has this memory, or -1 for host memory.
using DeviceOf = int (*)(const void* memory);

// Sets the process's function that recognizes GPU memory. Without this function, all memory counts as host memory.
void tell_devices_by(DeviceOf device_of);

// Throws Error{invalid_argument} if a tensor of the operation is in GPU memory.
void require_host_memory(const Call& call);

}  // namespace anello::group
