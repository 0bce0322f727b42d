#include "bench/machine.hpp"

#include <sys/utsname.h>

#include <anello/error.hpp>
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

std::uint64_t loopback_bytes() {
  // Not from /sys, whose mount may show the interfaces of another namespace.
  std::ifstream file("/proc/net/dev");
  std::uint64_t sent = 0;
  for (std::string word; file >> word;) {
    if (word != "lo:") continue;
    for (int column = 0; column < 9; column++) file >> sent;
    return sent;
  }
  throw Error(ErrorCode::unsupported, "/proc/net/dev has no line of the loopback interface");
}

}  // namespace anello::bench
