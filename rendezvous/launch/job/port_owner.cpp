#include "rendezvous/launch/job/port_owner.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "ring/base/text.hpp"

namespace anello::launch {
namespace {

namespace fs = std::filesystem;

// Returns the names of the sockets at this local port, as the links in /proc/PID/fd show them. A line of the table
// (proc(5)) has: number, local address with the port in hexadecimal digits, six columns, and the inode.
std::set<std::string> sockets_at(std::uint16_t port) {
  std::set<std::string> out;
  for (const char* table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream file(table);
    for (std::string line; std::getline(file, line);) {
      std::istringstream columns(line);
      std::string local, inode;
      columns >> inode >> local;
      for (int skipped = 0; skipped < 8; skipped++) columns >> inode;
      const std::size_t colon = local.find(':');
      if (colon != std::string::npos && std::strtoul(local.c_str() + colon + 1, nullptr, 16) == port && inode != "0")
        out.insert(text("socket:[", inode, "]"));
    }
  }
  return out;
}

// True if the process has one of these sockets. False if the process has ended, or belongs to another user.
bool has_one_of(const fs::path& process, const std::set<std::string>& sockets) {
  std::error_code ignored;
  for (fs::directory_iterator entry(process / "fd", ignored), end; entry != end; entry.increment(ignored)) {
    if (sockets.contains(fs::read_symlink(entry->path(), ignored).string())) return true;
    if (ignored) ignored.clear();
  }
  return false;
}

}  // namespace

std::string port_owner(std::uint16_t port) {
  const std::set<std::string> sockets = sockets_at(port);
  std::error_code ignored;
  for (fs::directory_iterator entry("/proc", ignored), end; entry != end; entry.increment(ignored)) {
    const std::string pid = entry->path().filename().string();
    if (pid.find_first_not_of("0123456789") != std::string::npos || !has_one_of(entry->path(), sockets)) continue;
    std::string name;
    std::getline(std::ifstream(entry->path() / "comm"), name);
    return text("process ", pid, " (", printable(name), ")");
  }
  return "another program";
}

}  // namespace anello::launch
