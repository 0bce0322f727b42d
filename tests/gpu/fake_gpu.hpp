// A GPU made of threads: each stream is a worker thread with random delays from a seed, so that work that is not
// ordered does race. As CUDA does, it refuses events and kernels on a stream of another device, makes a context of the
// current device in every call that needs one, takes no calls about no bytes, and waits for all of a device's work
// before it frees memory there. "Device" memory is host memory that the fake has registered, in blocks of its own.
// There is one fake in the process, as the table has no context. It counts the objects that are alive, and fails or
// hangs on command.
#pragma once
#include <cstdint>
#include <functional>
#include <set>
#include <string>

#include "gpu/device.hpp"

namespace anello::gpu::fake {

const AnelloGpuTable& table();
Device device(int id = 0);  // there are four

// Whether a kernel may be launched on the stream: only on a stream of the current device.
bool may_launch(GpuStream stream);

// The devices that any call has made a context of, since forget_contexts().
std::set<int> devices_with_context();
void forget_contexts();

// Queues a function on the stream, which runs it in its turn.
void queue(GpuStream stream, std::function<void()> kernel);
// From capture() on, work queued on the stream goes into a graph, as with CUDA's global mode: threads that do not
// ignore captures neither make or free memory nor ask about events on that device, or they spoil it. replay() ends that
// and queues the graph, unless it is spoilt. Events of a graph and other events must not meet.
void capture(GpuStream stream);
void replay(GpuStream stream);
void finish(GpuStream stream);  // blocks until everything queued on the stream has run
void wait_for_all();            // blocks until everything queued on any stream has run

// From now on calls this before each copy, on its stream's thread; null: nothing.
void before_copies(std::function<void(const void* to)> call);

int alive();                                               // streams, events, memories and graphs
int graphs_alive(), graphs_captured(), graphs_launched();  // now; since the process began
int urgent();                                              // urgent streams
int reclaim();  // frees the memory that was leaked; returns the number of blocks

// For this thread, memory that is not registered counts as memory of that device; -1: as host memory.
void pretend(int device);

// For this thread, devices are instances of that number of their GPUs (MIG).
void pretend_instance(int number);

// The call of that name ("copy", "event_record", ...) fails once in this thread, after `after` calls that succeed.
void fail(const std::string& call, int after = 0);
void limit_memory(std::size_t bytes);  // of each device: what would make more of it fails

void hang();     // from now on no stream runs anything; work that is queued meanwhile is lost
void corrupt();  // from now on every question about an event is an error, in all threads, as behind an illegal address
void recover();  // ends fail(), limit_memory(), hang() and corrupt()

}  // namespace anello::gpu::fake
