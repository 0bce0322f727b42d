// How long each thread of a process was ready to run but had no core, as counted by Linux. During such a time, a
// process cannot meet a time limit. Any thread.
#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <system_error>

namespace anello {

using RunDelays = std::map<std::string, std::chrono::nanoseconds>;  // by the thread's number

// Empty for a process that has ended.
inline RunDelays run_delays(const std::string& process = "self") {
  RunDelays delays;
  std::error_code ended;
  std::filesystem::directory_iterator thread("/proc/" + process + "/task", ended);
  for (; !ended && thread != end(thread); thread.increment(ended)) {
    std::ifstream counts(thread->path() / "schedstat");  // time on a core, then time ready but without a core
    std::int64_t ran = 0, waited = 0;
    if (counts >> ran >> waited) delays[thread->path().filename()] = std::chrono::nanoseconds(waited);
  }
  return delays;
}

// The delay of the calling thread since the thread began.
inline std::chrono::nanoseconds own_run_delay() {
  std::ifstream counts("/proc/thread-self/schedstat");
  std::int64_t ran = 0, waited = 0;
  counts >> ran >> waited;
  return std::chrono::nanoseconds(waited);
}

}  // namespace anello
