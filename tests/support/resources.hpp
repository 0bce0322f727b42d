// Counts descriptors and threads of this process, to find leaks.
#pragma once
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include <chrono>
#include <filesystem>
#include <iterator>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace anello {

inline std::ptrdiff_t entries(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
}
inline std::ptrdiff_t open_descriptors() {
  return entries("/proc/self/fd");
}
// A usable link may still close descriptors that it needed only for its start. Returns when no descriptor has been
// opened or closed for a while.
inline void wait_for_descriptors_to_settle() {
  constexpr int kQuietLooks = 60;
  std::ptrdiff_t before = open_descriptors();
  for (int quiet = 0; quiet < kQuietLooks; quiet++) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const std::ptrdiff_t now = open_descriptors();
    if (now != before) quiet = 0;
    before = now;
  }
}
// Returns the sockets, event loops and bells that a program inherits if this process starts it now. (The function
// itself opens and closes files meanwhile.)
inline std::set<std::string> inherited_sockets() {
  char program[] = "sleep", time[] = "60";
  char* const words[] = {program, time, nullptr};
  pid_t child = 0;
  if (posix_spawnp(&child, program, nullptr, nullptr, words, environ) != 0) throw std::runtime_error("no sleep");
  std::set<std::string> sockets;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(child) + "/fd")) {
    std::error_code closed;
    const std::string what = std::filesystem::read_symlink(entry.path(), closed).string();
    if (what.starts_with("socket:") || what.starts_with("anon_inode:")) sockets.insert(what);
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return sockets;
}
// Returns the number of threads. A joined thread may be listed for a moment longer, so this waits for `expected`.
inline std::ptrdiff_t running_threads(std::ptrdiff_t expected) {
  for (int k = 0; k < 4000 && entries("/proc/self/task") > expected; k++)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return entries("/proc/self/task");
}

// While this object lives, only this number of further descriptors can be opened.
class FewDescriptors {
 public:
  explicit FewDescriptors(std::size_t more) {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit less = before_;
    less.rlim_cur = 200;
    setrlimit(RLIMIT_NOFILE, &less);
    for (int taken = 0; (taken = dup(0)) >= 0;) taken_.push_back(taken);
    less.rlim_cur = kLongLived;
    if (more == 0) setrlimit(RLIMIT_NOFILE, &less);  // another thread may still close one
    for (; more > 0 && !taken_.empty(); more--) give_back();
  }
  ~FewDescriptors() {
    while (!taken_.empty()) give_back();
    setrlimit(RLIMIT_NOFILE, &before_);
  }
  FewDescriptors(const FewDescriptors&) = delete;

 private:
  static constexpr rlim_t kLongLived = 8;  // number of the first descriptors of a process, which it keeps
  void give_back() {
    close(taken_.back());
    taken_.pop_back();
  }
  rlimit before_{};
  std::vector<int> taken_;
};

}  // namespace anello
