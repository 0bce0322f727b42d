#include "ring/base/cores.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <fstream>
#include <string>

namespace anello {
namespace {

constexpr double kNoLimit = 1e9;

std::string affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0)  // fails if the machine has more cores than a cpu_set_t holds
    for (long core = 0; core < sysconf(_SC_NPROCESSORS_ONLN); core++) CPU_SET(std::size_t(core), &set);
  std::string allowed;
  for (std::size_t core = 0; core < CPU_SETSIZE; core++) {
    if (!CPU_ISSET(core, &set)) continue;
    allowed.resize(core / 8 + 1);
    allowed.back() = char(allowed.back() | 1 << core % 8);
  }
  return allowed;
}

// Reads the quota of control groups version 2: "max 100000" or "150000 100000" (quota and period, microseconds).
double quota() {
  std::ifstream groups("/proc/self/cgroup");
  std::string line, path;
  while (std::getline(groups, line))
    if (line.starts_with("0::")) path = line.substr(3);
  double min_quota = kNoLimit;
  for (;; path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'))) {
    std::ifstream file("/sys/fs/cgroup" + path + "/cpu.max");
    double allowed = 0, period = 0;
    if (file >> allowed >> period && period > 0) min_quota = std::min(min_quota, allowed / period);
    if (path.empty()) return min_quota;
  }
}

}  // namespace

double Cores::count() const {
  int set = 0;
  for (const char byte : allowed) set += std::popcount(static_cast<unsigned char>(byte));
  return std::min(double(set), quota);
}

Cores Cores::without_quota() const {
  return {allowed, kNoLimit};
}

void Cores::unite(const Cores& other) {
  allowed.resize(std::max(allowed.size(), other.allowed.size()));
  for (std::size_t i = 0; i < other.allowed.size(); i++) allowed[i] = char(allowed[i] | other.allowed[i]);
  quota = std::min(quota, other.quota);
}

Cores available_cores() {
  return {affinity(), quota()};
}

}  // namespace anello
