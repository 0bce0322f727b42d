#include "rendezvous/launch/remote_environment.hpp"

#include <unistd.h>

#include <algorithm>
#include <anello/error.hpp>
#include <cstdlib>
#include <string_view>

#include "ring/base/config.hpp"
#include "ring/base/text.hpp"

namespace anello::launch {

std::vector<std::string> remote_environment(const std::vector<std::string>& exported) {
  const auto wanted = [&](std::string_view name) {
    for (const std::string_view prefix : {"ANELLO_", "HOROVOD_", "NCCL_", "OMP_", "OPENBLAS_"})
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
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto inside = [&](char c) { return letter(c) || (c >= '0' && c <= '9'); };
  if (name.empty() || !letter(name[0]) || !std::ranges::all_of(name, inside))
    throw Error(ErrorCode::configuration, text("-x '", printable(entry), "': write -x NAME or -x NAME=value"));
  if (equals != std::string::npos)
    setenv(name.c_str(), entry.substr(equals + 1).c_str(), 1);
  else if (!environment(name.c_str()))
    throw Error(ErrorCode::configuration, text("-x ", name, ": it is not set here; write -x ", name, "=value"));
  return name;
}

}  // namespace anello::launch
