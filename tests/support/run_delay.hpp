// How long each thread of this process was ready to run and had no core, as Linux counts it: on a busy machine nobody
// keeps a promise in that time. Any thread.
#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

namespace anello {

using RunDelays = std::map<std::string, std::chrono::nanoseconds>;  // by the thread's number

inline RunDelays run_delays() {
  RunDelays delays;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream counts(thread.path() / "schedstat");  // the time on a core, then the time without
    std::int64_t ran = 0, waited = 0;
    if (counts >> ran >> waited) delays[thread.path().filename()] = std::chrono::nanoseconds(waited);
  }
  return delays;
}

// Of the calling thread, since it began.
inline std::chrono::nanoseconds own_run_delay() {
  std::ifstream counts("/proc/thread-self/schedstat");
  std::int64_t ran = 0, waited = 0;
  counts >> ran >> waited;
  return std::chrono::nanoseconds(waited);
}

}  // namespace anello
