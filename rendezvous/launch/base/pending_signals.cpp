#include "rendezvous/launch/base/pending_signals.hpp"

#include <filesystem>
#include <fstream>
#include <string>

namespace anello::launch {
namespace {

// Reads the file `status` of a process, or of its first thread, in /proc. The file does not exist if the process has
// ended.
bool has_pending(const std::filesystem::path& process, pid_t group, int signal) {
  std::ifstream status(process / "status");
  bool in_group = false, pending = false;
  const unsigned long long bit = 1ULL << (signal - 1);
  for (std::string word; status >> word;) {
    if (word == "NSpgid:") {
      pid_t number = 0;
      in_group = status >> number && number == group;
    }
    if (word != "SigPnd:" && word != "ShdPnd:") continue;
    if (!(status >> word)) break;
    pending = pending || (std::stoull(word, nullptr, 16) & bit) != 0;
  }
  return in_group && pending;
}

}  // namespace

bool is_pending(pid_t group, int signal) {
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", gone)) {
    const std::string name = entry.path().filename();
    const bool is_process = name.find_first_not_of("0123456789") == std::string::npos;
    if (is_process && has_pending(entry.path(), group, signal)) return true;
  }
  return false;
}

}  // namespace anello::launch
