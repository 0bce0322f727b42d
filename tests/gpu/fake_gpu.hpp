// A GPU made of threads: a worker for each stream, so that what is not ordered does race, with delays drawn from a
// seed; "device" memory that is the host's, but known apart. One in the process, as the table has no context. Counts
// what is alive, and fails or hangs where a test says so.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "gpu/device.hpp"

namespace anello::gpu::fake {

const AnelloGpuTable& table();
Device device(int id = 0);  // of four

// What is queued on the stream runs it in its turn.
void queue(void* stream, std::function<void()> kernel);
void finish(void* stream);  // blocks until all that is queued has run
void settle_down();         // the same of all streams

int alive();    // streams, events and memories
int reclaim();  // gives back the memory that was left behind, and says how much that was

// For this thread all memory that it does not know is of that device; -1: of the host, as it is.
void pretend(int device);

// The call of that name ("copy", "event_record", ...) fails once in this thread, after so many that do not.
void fail(const std::string& call, int after = 0);
void hang();     // from now on nothing that was queued runs, on any stream; what is queued meanwhile never does
void recover();  // from both

}  // namespace anello::gpu::fake
