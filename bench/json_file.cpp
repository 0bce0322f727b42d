#include "bench/json_file.hpp"

#include <anello/error.hpp>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <system_error>

#include "ring/base/text.hpp"

namespace anello::bench {
namespace {

[[noreturn]] void fail(const std::string& path) {
  throw Error(ErrorCode::file, text("-J ", path, ": ", std::system_category().message(errno)));
}

}  // namespace

JsonFile::JsonFile(const std::string& path) : path_(path) {
  if (path.empty()) return;
  file_.open(path);
  if (!file_) fail(path_);
}

void JsonFile::write(const nlohmann::ordered_json& json) {
  if (file_.is_open() && !(file_ << json.dump(2) << std::endl)) fail(path_);
}

}  // namespace anello::bench
