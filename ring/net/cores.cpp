#include "ring/net/cores.hpp"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace anello {
namespace {

constexpr double kNoLimit = 1e9;

double affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : kNoLimit;
}

// Control groups version 2: "max 100000" or "150000 100000" (quota and period, microseconds).
double quota() {
  std::ifstream groups("/proc/self/cgroup");
  std::string line, path;
  while (std::getline(groups, line))
    if (line.starts_with("0::")) path = line.substr(3);
  double least = kNoLimit;
  for (;; path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'))) {
    std::ifstream file("/sys/fs/cgroup" + path + "/cpu.max");
    double allowed = 0, period = 0;
    if (file >> allowed >> period && period > 0) least = std::min(least, allowed / period);
    if (path.empty()) return least;
  }
}

}  // namespace

double available_cores() {
  return std::min(affinity(), quota());
}

}  // namespace anello
