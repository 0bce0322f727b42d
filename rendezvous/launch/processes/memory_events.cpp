#include "rendezvous/launch/processes/memory_events.hpp"

#include <fstream>
#include <iterator>
#include <sstream>

namespace anello::launch {
namespace {

std::string content(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Reads "0::/path", which is the process's group in version 2 of control groups.
std::string own_group() {
  std::istringstream lines(content("/proc/self/cgroup"));
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("0::")) return line.substr(3);
  return {};
}

}  // namespace

std::optional<std::uint64_t> kills_in(const std::string& events) {
  std::istringstream lines(events);
  std::string name;
  for (std::uint64_t count = 0; lines >> name >> count;)
    if (name == "oom_kill") return count;
  return std::nullopt;
}

std::optional<std::uint64_t> out_of_memory_kills() {
  if (const auto kills = kills_in(content("/sys/fs/cgroup" + own_group() + "/memory.events"))) return kills;
  return kills_in(content("/proc/vmstat"));
}

}  // namespace anello::launch
