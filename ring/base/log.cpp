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
std::mutex who_mutex;
std::string& who_speaks() {
  static auto* who = new std::string;  // outlives every static destructor that may log
  return *who;
}
}  // namespace

void set_log(Severity least, std::string_view who) {
  min_severity = least;
  const std::lock_guard lock(who_mutex);
  who_speaks() = who;
}

bool log_enabled(Severity severity) {
  return severity <= min_severity;
}

void log(Severity severity, std::string_view message) {
  if (!log_enabled(severity)) return;
  std::string line = "anello: ";
  {
    const std::lock_guard lock(who_mutex);
    if (!who_speaks().empty()) line.append(who_speaks()).append(": ");
  }
  line.append(kSeverityNames[static_cast<std::size_t>(severity)]).append(": ").append(message).append("\n");
  if (write(STDERR_FILENO, line.data(), line.size()) < 0) return;  // nowhere left to say so
}

bool parse(std::string_view text, Severity& severity) {
  for (std::size_t i = 0; i < kSeverityNames.size(); i++)
    if (text == kSeverityNames[i]) return severity = Severity(i), true;
  return false;
}

}  // namespace anello
