#include "rendezvous/join/pmi_message.hpp"

#include <algorithm>
#include <anello/error.hpp>

#include "ring/base/config.hpp"
#include "ring/base/text.hpp"

namespace anello::rendezvous {
namespace {

[[noreturn]] void refuse(std::string_view line, std::string_view why) {
  throw Error(ErrorCode::protocol, text("invalid PMI message '", printable(line, 200), "': ", why));
}

}  // namespace

const std::string& PmiMessage::field(const std::string& name) const {
  const auto found = fields.find(name);
  if (found == fields.end())
    throw Error(ErrorCode::protocol, text("PMI message '", printable(command, 64), "' has no field '", name, "'"));
  return found->second;
}

long PmiMessage::number(const std::string& name, long min, long max) const {
  try {
    return parse_number(name, field(name), min, max);
  } catch (const Error& error) {
    throw Error(ErrorCode::protocol, text("PMI message '", printable(command, 64), "': ", error.message()));
  }
}

PmiMessage parse_pmi_message(std::string_view line) {
  if (line.size() > kMaxPmiLineBytes) refuse(line, text("longer than ", kMaxPmiLineBytes, " bytes"));
  if (std::ranges::any_of(line, [](unsigned char c) { return c < 0x20 || c > 0x7e; }))
    refuse(line, "it is not printable ASCII");
  PmiMessage message;
  for (std::string_view rest = line; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
    if (word.empty()) continue;  // MPICH ends some lines with a blank
    const std::size_t equals = word.find('=');
    if (equals == 0 || equals == word.npos) refuse(line, text("'", printable(word, 64), "' is not name=value"));
    const std::string name(word.substr(0, equals)), value(word.substr(equals + 1));
    const bool first = message.command.empty();
    if (first != (name == "cmd") || (first && value.empty())) refuse(line, "it does not begin with one cmd=");
    if (first)
      message.command = value;
    else if (!message.fields.try_emplace(name, value).second)
      refuse(line, text("field '", printable(name, 64), "' appears twice"));
  }
  if (message.command.empty()) refuse(line, "it is empty");
  return message;
}

bool fits_pmi_message(std::string_view word) {
  return !word.empty() &&
         std::ranges::all_of(word, [](unsigned char c) { return c > 0x20 && c < 0x7f && c != '=' && c != ';'; });
}

}  // namespace anello::rendezvous
