// A GPU made of threads: each stream is a worker thread with random delays from a seed, so that work that is not
// ordered does race. "Device" memory is host memory that the fake has registered. There is one fake in the process, as
// the table has no context. It counts the objects that are alive, and fails or hangs on command.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "gpu/device.hpp"

namespace anello::gpu::fake {

const AnelloGpuTable& table();
Device device(int id = 0);  // there are four

// Queues a function on the stream, which runs it in its turn.
void queue(GpuStream stream, std::function<void()> kernel);
void finish(GpuStream stream);  // blocks until everything queued on the stream has run
void wait_for_all();            // blocks until everything queued on any stream has run

int alive();    // streams, events and memories
int reclaim();  // frees the memory that was leaked; returns the number of blocks

// For this thread, memory that is not registered counts as memory of that device; -1: as host memory.
void pretend(int device);

// The call of that name ("copy", "event_record", ...) fails once in this thread, after `after` calls that succeed.
void fail(const std::string& call, int after = 0);
void hang();     // from now on no stream runs anything; work that is queued meanwhile is lost
void recover();  // ends fail() and hang()

}  // namespace anello::gpu::fake
