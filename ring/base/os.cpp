#include "ring/base/os.hpp"

#include <sys/stat.h>

#include <fstream>

#include "ring/base/text.hpp"

namespace anello {

std::string running_kernel() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return boot;
}

std::string kernel_identity(const std::string& kind) {
  const std::string boot = running_kernel();
  struct stat space {};
  if (stat(("/proc/self/ns/" + kind).c_str(), &space) != 0 || boot.empty()) return {};
  return text(boot, "/", space.st_ino);
}

}  // namespace anello
