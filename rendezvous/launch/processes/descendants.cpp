#include "rendezvous/launch/processes/descendants.hpp"

#include <dirent.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "rendezvous/launch/base/descriptor.hpp"

namespace anello::launch {
namespace {

// Reads /proc/PID/stat: "PID (name) state parent ...". The name may contain any characters.
pid_t parent_of(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/stat");
  std::array<char, 4096> text{};
  file.read(text.data(), text.size() - 1);  // reads nothing if the process has ended
  const std::string_view line(text.data(), std::size_t(file.gcount()));
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos || name_end + 4 >= line.size()) return -1;
  return pid_t(std::strtol(line.data() + name_end + 4, nullptr, 10));
}

}  // namespace

void adopt_orphans() {
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0) throw system_error("becoming the parent of orphaned processes");
}

std::vector<pid_t> children() {
  std::vector<pid_t> out;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc"), closedir);
  if (!folder) return out;
  const pid_t self = getpid();
  while (const dirent* entry = readdir(folder.get())) {
    const std::string name = entry->d_name;
    if (name.find_first_not_of("0123456789") == std::string::npos && parent_of(name) == self)
      out.push_back(pid_t(std::stol(name)));
  }
  return out;
}

bool has_variables(pid_t process, const std::vector<std::string>& entries) {
  std::ifstream file("/proc/" + std::to_string(process) + "/environ");
  std::size_t found = 0;
  for (std::string entry; std::getline(file, entry, '\0');) found += std::ranges::count(entries, entry);
  return found == entries.size();
}

bool end_children(const std::vector<pid_t>& spared, std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  for (;;) {
    bool any = false;
    for (pid_t child : children()) {
      if (std::ranges::find(spared, child) != spared.end()) continue;
      any = true;
      kill(child, SIGKILL);
      waitpid(child, nullptr, WNOHANG);
    }
    if (!any) return true;
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace anello::launch
