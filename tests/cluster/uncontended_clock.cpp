#include "tests/cluster/uncontended_clock.hpp"

#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <array>
#include <chrono>
#include <string>

namespace anello::cluster {
namespace {

constexpr std::chrono::milliseconds kSleep{5};

double seconds_of(const timeval& time) {
  return double(time.tv_sec) + 1e-6 * double(time.tv_usec);
}

// Returns the processor time of a process that does nothing.
double process_time() {
  std::string name = "true";
  std::array<char*, 2> arguments = {name.data(), nullptr};
  pid_t pid = -1;
  rusage used{};
  if (posix_spawnp(&pid, "true", nullptr, nullptr, arguments.data(), environ) != 0) return 0;
  wait4(pid, nullptr, 0, &used);
  return seconds_of(used.ru_utime) + seconds_of(used.ru_stime);
}

}  // namespace

UncontendedClock::UncontendedClock() : thread_([this] { run(); }) {}

UncontendedClock::~UncontendedClock() {
  over_ = true;
  thread_.join();
}

void UncontendedClock::run() {
  while (!over_) {
    std::this_thread::sleep_for(kSleep);
    seconds_ = seconds_ + std::chrono::duration<double>(kSleep).count() + process_time();
  }
}

}  // namespace anello::cluster
