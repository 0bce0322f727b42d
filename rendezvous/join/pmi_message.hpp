// The lines of PMI-1, the text protocol between a process manager and the processes that it has started:
// "cmd=name field=value field=value" and a newline. Pure: no I/O. The bytes come from outside and are not trusted.
#pragma once
#include <map>
#include <string>
#include <string_view>

namespace anello::rendezvous {

inline constexpr std::size_t kMaxPmiLineBytes = 4096;

struct PmiMessage {
  std::string command;
  std::map<std::string, std::string> fields;

  // If the message has no such field, throws Error{protocol} that names the command and the field.
  const std::string& field(const std::string& name) const;
  // Like field(), but also throws if the value is not a number in [min, max].
  long number(const std::string& name, long min, long max) const;
};

// Parses a line without its newline. Throws Error{protocol} that names the mistake.
PmiMessage parse_pmi_message(std::string_view line);

// True if a PMI message can carry this name or value: at least one character, and only printable ASCII without blank,
// '=' and ';'.
bool fits_pmi_message(std::string_view word);

}  // namespace anello::rendezvous
