#include "ring/base/os.hpp"

#include <sys/stat.h>

#include <fstream>

#include "ring/base/text.hpp"

namespace anello {

std::string kernel_identity(const std::string& kind) {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat space {};
  if (stat(("/proc/self/ns/" + kind).c_str(), &space) != 0 || boot.empty()) return {};
  return text(boot, "/", space.st_ino);
}

}  // namespace anello
