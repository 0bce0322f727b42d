// A hint to the processor: this thread will write to a cache line that another core has a copy of. The copy is taken
// from it now, while something else is done, rather than when the write waits for that. Changes no memory; any thread.
#pragma once

namespace anello::shm {

// What the compiler makes of its builtin for any x86 only reads the line, which takes nothing from the other core.
inline void prefetch_to_write(const void* line) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

}  // namespace anello::shm
