#include "bench/machine.hpp"

#include <sys/utsname.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "ring/base/cores.hpp"

namespace anello::bench {
namespace {

std::string cpu() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown";
}

std::string first_line(const char* path) {
  std::string line;
  std::getline(std::ifstream(path), line);
  return line;
}

std::string kernel() {
  utsname names{};
  return uname(&names) == 0 ? names.release : "unknown";
}

}  // namespace

nlohmann::ordered_json machine() {
  return {{"cpu", cpu()},
          {"cores", available_cores().count()},
          {"kernel", kernel()},
          {"congestion", first_line("/proc/sys/net/ipv4/tcp_congestion_control")}};
}

}  // namespace anello::bench
