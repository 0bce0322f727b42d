// The settings of a world: a struct with one field for each row of the table in settings.def. It is read from the
// environment or filled in by the program. A number is -1 if it is not set and its row has no default. Objects are
// values.
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
#define ANELLO_SETTING(field, type, variable, value, unit, min, max, kind, sentence) \
  type field = detail::SettingDefault<type>::of(value);
#include <anello/settings.def>
#undef ANELLO_SETTING

  // Returns the settings of this process's environment; an empty variable counts as not set. Throws
  // Error{configuration} with the variable, its value and what is expected. During the call, no other thread may call
  // setenv.
  [[nodiscard]] static Settings from_environment();

  // Changes one setting, given as text, such as "ANELLO_RANK=3". Throws Error{configuration} if the value is wrong or
  // there is no setting with this name.
  void set(std::string_view assignment);
};

// One row of the table as text, for help and documentation.
struct SettingRow {
  std::string_view variable, kind, unit, fallback, sentence;
};
// All rows, in the table's order. Any thread.
const std::vector<SettingRow>& setting_rows();

}  // namespace anello
ANELLO_API_END
