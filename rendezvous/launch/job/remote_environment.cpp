#include "rendezvous/launch/job/remote_environment.hpp"

#include <unistd.h>

#include <algorithm>
#include <anello/error.hpp>
#include <cstdlib>
#include <string_view>

#include "rendezvous/launch/job/environment.hpp"
#include "ring/base/text.hpp"

namespace anello::launch {

std::vector<std::string> remote_environment(const std::vector<std::string>& exported) {
  const auto wanted = [&](std::string_view name) {
    for (const std::string_view prefix : {"ANELLO_", "HOROVOD_", "NCCL_", "OMP_", "OPENBLAS_", "TF_"})
      if (name.starts_with(prefix)) return true;
    for (const std::string_view path : {"PATH", "LD_LIBRARY_PATH", "PYTHONPATH"})
      if (name == path) return true;
    return std::ranges::find(exported, name) != exported.end();
  };
  std::vector<std::string> out;
  for (char** entry = environ; *entry; entry++) {
    const std::string_view text = *entry;
    if (wanted(text.substr(0, text.find('=')))) out.emplace_back(text);
  }
  return out;
}

std::string export_variable(const std::string& entry) {
  const std::size_t equals = entry.find('=');
  const std::string name = entry.substr(0, equals);
  const auto wrong = [&](std::string_view why) {
    return Error(ErrorCode::configuration,
                 text("-x '", printable(entry), "': ", why, "; write -x NAME or -x NAME=value"));
  };
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  if (name.empty()) throw wrong("the name is missing");
  if (!letter(name[0])) throw wrong("a name begins with a letter or _");
  const auto strange = std::ranges::find_if(name, [](char c) { return c <= ' ' || c > '~'; });
  if (strange != name.end()) throw wrong("a name has no spaces, and no characters that are not ASCII");
  if (equals != std::string::npos)
    setenv(name.c_str(), entry.substr(equals + 1).c_str(), 1);
  else if (!is_set(name))
    throw Error(ErrorCode::configuration, text("-x ", name, ": it is not set here; write -x ", name, "=value"));
  return name;
}

}  // namespace anello::launch
