#include "rendezvous/launch/base/timestamp.hpp"

#include <array>
#include <cstdio>
#include <ctime>

#include "ring/base/wall_clock.hpp"

namespace anello::launch {

std::string timestamp(std::chrono::steady_clock::time_point when) {
  const auto ago = std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - when);
  const std::int64_t since_1970_ms = (wall_clock_us() - ago.count()) / 1000;
  const std::time_t seconds = since_1970_ms / 1000;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 64> text;
  const std::size_t length = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text.data() + length, text.size() - length, ".%03dZ ", int(since_1970_ms % 1000));
  return text.data();
}

}  // namespace anello::launch
