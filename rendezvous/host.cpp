#include "rendezvous/host.hpp"

#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>

namespace anello::rendezvous {

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0 || !name[0]) return "unknown-host";
  return name.data();
}

std::string machine() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  std::error_code unreadable;
  return boot + " " + std::filesystem::read_symlink("/proc/self/ns/net", unreadable).string();
}

}  // namespace anello::rendezvous
