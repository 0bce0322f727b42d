#include "ring/base/log.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <mutex>
#include <string>

namespace anello {
namespace {
constexpr std::array<std::string_view, 4> kSeverityNames = {"error", "warning", "info", "debug"};

std::atomic<Severity> min_severity = Severity::warning;
std::mutex speaker_mutex;
std::string& speaker() {
  static auto* text = new std::string;  // outlives every static destructor that may log
  return *text;
}
}  // namespace

void set_log(Severity min, std::string_view name) {
  min_severity = min;
  const std::lock_guard lock(speaker_mutex);
  speaker() = name;
}

bool log_enabled(Severity severity) {
  return severity <= min_severity;
}

void log(Severity severity, std::string_view message) {
  if (!log_enabled(severity)) return;
  std::string line = "anello: ";
  {
    const std::lock_guard lock(speaker_mutex);
    if (!speaker().empty()) line.append(speaker()).append(": ");
  }
  line.append(kSeverityNames[static_cast<std::size_t>(severity)]).append(": ").append(message).append("\n");
  if (write(STDERR_FILENO, line.data(), line.size()) < 0) return;  // nothing can be done about it
}

bool parse(std::string_view text, Severity& severity) {
  for (std::size_t i = 0; i < kSeverityNames.size(); i++)
    if (text == kSeverityNames[i]) return severity = Severity(i), true;
  return false;
}

}  // namespace anello
