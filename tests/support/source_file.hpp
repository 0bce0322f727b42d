// Questions about one source file of the project, for the rules in tidy.cpp and rooms.cpp.
#pragma once
#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>

#include "tests/support/tidy.hpp"

namespace anello::tidy {

inline bool ends_with_any(std::string_view path, std::initializer_list<std::string_view> suffixes) {
  return std::any_of(suffixes.begin(), suffixes.end(), [&](auto suffix) { return path.ends_with(suffix); });
}
inline bool is_header(const File& file) {
  return ends_with_any(file.path, {".hpp", ".h", ".def"});
}
inline bool is_cpp(const File& file) {
  return is_header(file) || ends_with_any(file.path, {".cpp", ".c", ".cu", ".in"});
}
// Tests, and benchmarks of one room, may use the internals of the code that they examine.
inline bool is_product(const File& file) {
  return is_cpp(file) && !file.path.starts_with("tests/") && !file.path.starts_with("bench/micro/");
}
inline std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}
inline std::string name_of(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

}  // namespace anello::tidy
