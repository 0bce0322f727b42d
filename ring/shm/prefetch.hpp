// A hint to the processor: this thread will write to a cache line that is in another core's cache. The processor then
// fetches the line while this thread does other work, so the write need not wait. Changes no memory; any thread.
#pragma once

namespace anello::shm {

// On generic x86, compilers turn __builtin_prefetch for writing into a read prefetch, which does not take the line from
// the other core.
inline void prefetch_to_write(const void* line) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

}  // namespace anello::shm
