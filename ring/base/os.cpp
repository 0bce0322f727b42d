#include "ring/base/os.hpp"

#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

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

// Both times are since the boot of the machine, in this process's time namespace.
std::chrono::milliseconds process_age() {
  using std::chrono::milliseconds;
  constexpr int kAfterName = 19;  // words between the program's name, which may have spaces and brackets, and the time
  std::string line;
  std::getline(std::ifstream("/proc/self/stat"), line);
  std::istringstream words(line.substr(std::min(line.rfind(')') + 1, line.size())));
  std::string skipped;
  for (int k = 0; k < kAfterName; k++) words >> skipped;
  std::int64_t ticks = 0;
  timespec now{};
  const long a_second = sysconf(_SC_CLK_TCK);
  if (!(words >> ticks) || a_second <= 0 || clock_gettime(CLOCK_BOOTTIME, &now) != 0) return milliseconds(0);
  const milliseconds began(ticks * 1000 / a_second);
  const milliseconds since_boot = std::chrono::seconds(now.tv_sec) + milliseconds(now.tv_nsec / 1000000);
  return std::max(since_boot - began, milliseconds(0));
}

}  // namespace anello
