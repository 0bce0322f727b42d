// A GPU made of threads: each stream is a worker thread with random delays from a seed, so that operations without an
// order between them really race. Like CUDA, it refuses events and kernels on a stream of another device, makes a
// context on the current device in every call that needs one, refuses calls with no bytes, and waits for all of a
// device's work before it frees memory there. "Device" memory is host memory in separate blocks that the fake has
// registered. There is one fake in the process, because the table has no context argument. It counts the objects that
// are alive, and fails or hangs on command.
#pragma once
#include <cstdint>
#include <functional>
#include <set>
#include <string>

#include "gpu/device.hpp"

namespace anello::gpu::fake {

const AnelloGpuTable& table();
Device device(int id = 0);  // there are four

// True if a kernel may be launched on the stream: it must be one of the current device.
bool may_launch(GpuStream stream);

// The devices on which any call has made a context since forget_contexts().
std::set<int> devices_with_context();
void forget_contexts();

// Queues a function on the stream, which runs it in its turn.
void queue(GpuStream stream, std::function<void()> kernel);
// From capture() on, work queued on the stream goes into a graph, as in CUDA's global mode. Any thread that allocates
// or frees memory on that device, or queries an event, invalidates the capture, unless the thread ignores captures.
// replay() ends the capture and queues the graph, unless it is invalid. Events of a graph and other events must not be
// mixed.
void capture(GpuStream stream);
void replay(GpuStream stream);
void finish(GpuStream stream);  // blocks until everything queued on the stream has run
void wait_for_all();            // blocks until everything queued on any stream has run

// From now on `call` is called before each copy, on the stream's thread; null: nothing is called.
void before_copies(std::function<void(const void* to)> call);

int alive();                                               // streams, events, memories and graphs
int graphs_alive(), graphs_captured(), graphs_launched();  // now; since the process began
int urgent();                                              // urgent streams
int reclaim();  // frees the memory that was leaked; returns the number of blocks

// On this thread, memory that is not registered counts as memory of that device; -1: it counts as host memory.
void pretend(int device);

// On this thread, each device is instance `number` of its GPU (MIG).
void pretend_instance(int number);

// The call of that name ("copy", "event_record", ...) fails once in this thread, after `after` calls that succeed.
void fail(const std::string& call, int after = 0);
void limit_memory(std::size_t bytes);  // limit of each device; an allocation beyond it fails

void hang();  // from now on no stream runs anything; work that is queued meanwhile is lost
// From now on every query of an event is an error, in all threads, as after an access to an illegal address.
void corrupt();
void recover();  // ends fail(), limit_memory(), hang() and corrupt()

}  // namespace anello::gpu::fake
