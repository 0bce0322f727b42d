#include "ring/base/log.hpp"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <utility>

#include "ring/base/blocking_work.hpp"
#include "ring/base/mutex.hpp"
#include "ring/base/text.hpp"

namespace anello {
namespace {
constexpr std::array<std::string_view, 4> kSeverityNames = {"error", "warning", "info", "debug"};

std::atomic<Severity> min_severity = Severity::warning;
std::atomic<LineStart> line_start_in_use = nullptr;
Mutex speaker_mutex;
std::string& speaker() ANELLO_REQUIRES(speaker_mutex) {
  static auto* text = new std::string;  // never destroyed, because static destructors may log
  return *text;
}

constexpr std::size_t kMaxLines = 1000;
// Three limits: how long log() waits for its line if the queue was empty; how long it waits for the message of a fatal
// error; and how long the process waits at exit for all lines.
constexpr std::chrono::milliseconds kPatience{100}, kErrorPatience{1000}, kExitPatience{1000};
std::atomic<std::uint64_t> lost_lines = 0;

std::atomic<BlockingWork*> writer_in_use = nullptr;
BlockingWork& writer() {
  static BlockingWork& work = []() -> BlockingWork& {
    std::atexit([] { flush_log(kExitPatience); });
    return *(writer_in_use = new BlockingWork);
  }();
  return work;
}

// Blocks until the line is written, or an error shows that it cannot be written.
void write_line(std::string_view line) {
  while (!line.empty()) {
    const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
    pollfd polled{STDERR_FILENO, POLLOUT, 0};
    if (written >= 0)
      line.remove_prefix(std::size_t(written));
    else if (errno == EAGAIN)
      poll(&polled, 1, -1);
    else if (errno != EINTR)
      return;
  }
}

std::string formatted(Severity severity, std::string_view message) {
  const LineStart line_start = line_start_in_use;
  std::string line = line_start ? line_start() : "";
  line += "anello: ";
  {
    const MutexLock lock(speaker_mutex);
    if (!speaker().empty()) line.append(speaker()).append(": ");
  }
  return line.append(kSeverityNames[static_cast<std::size_t>(severity)]).append(": ").append(message).append("\n");
}

void report_lost_lines() {
  write_line(formatted(Severity::warning,
                       text(lost_lines.exchange(0), " messages are missing here: standard error was not read")));
}
}  // namespace

void set_log(Severity min, std::string_view name, LineStart line_start) {
  min_severity = min;
  line_start_in_use = line_start;
  const MutexLock lock(speaker_mutex);
  speaker() = name;
}

bool log_enabled(Severity severity) {
  return severity <= min_severity;
}

void log(Severity severity, std::string_view message) {
  if (!log_enabled(severity)) return;
  const std::size_t waiting = writer().size();
  if (waiting < kMaxLines)
    writer().add([line = formatted(severity, message)] { write_line(line); });
  else if (lost_lines++ == 0)
    writer().add(report_lost_lines);
  if (severity == Severity::error)
    writer().wait(kErrorPatience);
  else if (waiting == 0)
    writer().wait(kPatience);
}

// Allocates no memory, because at exit there may be no free memory.
void flush_log(std::chrono::milliseconds limit) {
  if (const BlockingWork* const work = writer_in_use) work->wait(limit);
}

bool parse(std::string_view text, Severity& severity) {
  for (std::size_t i = 0; i < kSeverityNames.size(); i++)
    if (text == kSeverityNames[i]) return severity = Severity(i), true;
  return false;
}

}  // namespace anello
