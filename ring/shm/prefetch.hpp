// A hint to the processor that this thread will write to a cache line of which another core has a copy. The line is
// taken from that core now, while this thread does other work, instead of when the write waits for it. Changes no
// memory; any thread.
#pragma once

namespace anello::shm {

// On generic x86, compilers turn their builtin into a read prefetch, which does not take the line from the other core.
inline void prefetch_to_write(const void* line) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

}  // namespace anello::shm
