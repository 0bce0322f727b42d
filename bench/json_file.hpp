// The file that -J names. It is opened before a long run, so that an error is reported at once, and written after the
// run.
#pragma once
#include <fstream>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace anello::bench {

class JsonFile {
 public:
  JsonFile() = default;
  explicit JsonFile(const std::string& path);      // with an empty path, write() does nothing; throws Error{file}
  void write(const nlohmann::ordered_json& json);  // throws Error{file}

 private:
  std::string path_;
  std::ofstream file_;
};

}  // namespace anello::bench
