// The settings of a world, from the table in settings.def: a struct with one field a row, read from the environment
// or filled in by a program. Reading the environment is not thread-safe against setenv.
#pragma once
#include <anello/export.h>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

ANELLO_API_BEGIN
namespace anello {

namespace detail {
template <class T>
struct SettingDefault {
  static T of(T value) { return value; }
};
template <>
struct SettingDefault<std::chrono::milliseconds> {
  static std::chrono::milliseconds of(int value) { return std::chrono::milliseconds(value); }
};
}  // namespace detail

struct Settings {
#define ANELLO_SETTING(field, type, variable, value, unit, least, most, kind, sentence) \
  type field = detail::SettingDefault<type>::of(value);
#include <anello/settings.def>
#undef ANELLO_SETTING

  // Throws Error{configuration} that names the variable, its value and what is expected.
  static Settings from_environment();

  // "ANELLO_RANK=3". Throws the same, and if there is no such variable.
  void set(std::string_view assignment);
};

// One row of the table as text, for help and documentation.
struct SettingRow {
  std::string_view variable, kind, unit, fallback, sentence;
};
const std::vector<SettingRow>& setting_rows();

}  // namespace anello
ANELLO_API_END
