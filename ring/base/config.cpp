#include "ring/base/config.hpp"

#include <unistd.h>

#include <algorithm>
#include <anello/error.hpp>
#include <charconv>
#include <cstdlib>
#include <numeric>

#include "ring/base/algorithm.hpp"
#include "ring/base/text.hpp"

namespace anello {
namespace {

using std::chrono::milliseconds;

void assign(std::string_view variable, std::string_view value, long min, long max, int& field) {
  field = int(parse_number(variable, value, min, max));
}
void assign(std::string_view variable, std::string_view value, long min, long max, milliseconds& field) {
  field = milliseconds(parse_number(variable, value, min, max));
}
void assign(std::string_view, std::string_view value, long, long, std::string& field) {
  field = value;
}

std::string shown(const std::string& value) {
  return value;
}
std::string shown(int value) {
  return std::to_string(value);
}
std::string shown(milliseconds value) {
  return std::to_string(value.count());
}

// Returns Levenshtein's distance: the number of letters that must be replaced, inserted or removed to turn one text
// into the other.
std::size_t distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 0; i < from.size(); i++) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t k = 0; k < to.size(); k++) {
      const std::size_t replaced = diagonal + (from[i] != to[k]);
      diagonal = row[k + 1];
      row[k + 1] = std::min({replaced, row[k] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

std::optional<std::string> environment(const char* variable) {
  const char* value = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): documented in settings.hpp
  if (!value || !*value) return std::nullopt;
  return value;
}

long parse_number(std::string_view what, std::string_view digits, long min, long max) {
  long value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || value < min || value > max)
    throw Error(ErrorCode::configuration, text(what, "='", digits, "' is not a whole number from ", min, " to ", max));
  return value;
}

Settings Settings::from_environment() {
  Settings settings;
#define ANELLO_SETTING(field, type, variable, value, unit, min, max, kind, sentence) \
  if (const auto given = environment(variable)) assign(variable, *given, min, max, settings.field);
#include <anello/settings.def>
#undef ANELLO_SETTING
  return settings;
}

void Settings::set(std::string_view assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string_view::npos)
    throw Error(ErrorCode::configuration, text("a setting must be VARIABLE=value, not '", assignment, "'"));
  const std::string_view name = assignment.substr(0, equals), given = assignment.substr(equals + 1);
#define ANELLO_SETTING(field, type, variable, value, unit, min, max, kind, sentence) \
  if (name == variable) return assign(variable, given, min, max, field);
#include <anello/settings.def>
#undef ANELLO_SETTING
  throw Error(ErrorCode::configuration, text("there is no setting ", name, "; `anello settings` lists them"));
}

std::vector<std::pair<std::string, std::string>> environment_settings() {
  std::vector<std::pair<std::string, std::string>> found;
  for (char** entry = environ; *entry; entry++) {
    const std::string_view line = *entry;
    const std::size_t equals = line.find('=');
    if (!line.starts_with("ANELLO_") || equals == std::string_view::npos || equals + 1 == line.size()) continue;
    found.emplace_back(line.substr(0, equals), line.substr(equals + 1));
  }
  return found;
}

bool is_setting(std::string_view variable) {
  return std::ranges::any_of(setting_rows(), [&](const SettingRow& row) { return row.variable == variable; });
}

std::string_view nearest_setting(std::string_view variable) {
  std::string_view nearest;
  std::size_t min = 3;
  for (const SettingRow& row : setting_rows())
    if (const std::size_t letters = distance(variable, row.variable); letters < min) {
      min = letters;
      nearest = row.variable;
    }
  if (!nearest.empty()) return nearest;
  for (const SettingRow& row : setting_rows())  // finds ANELLO_LOG if `variable` is ANELLO_LOG_LEVEL
    if (variable.starts_with(row.variable) && row.variable.size() > nearest.size()) nearest = row.variable;
  return nearest;
}

std::vector<std::string> misspelt_settings() {
  std::vector<std::string> sentences;
  for (const auto& [variable, value] : environment_settings())
    if (const std::string_view nearest = nearest_setting(variable); !is_setting(variable) && !nearest.empty())
      sentences.push_back(text(variable, " is not a setting and is ignored; ", nearest, " is one"));
  return sentences;
}

std::string wire_settings(const Settings& settings) {
  std::string out;
#define ANELLO_SETTING(field, type, variable, value, unit, min, max, kind, sentence) \
  if (std::string_view(#kind) == "wire") out += variable "=" + shown(settings.field) + "\n";
#include <anello/settings.def>
#undef ANELLO_SETTING
  return out;
}

std::string changed_settings(const Settings& settings) {
  const Settings usual;
  std::string out;
#define ANELLO_SETTING(field, type, variable, value, unit, min, max, kind, sentence)     \
  if (std::string_view(#kind) != "given" && shown(settings.field) != shown(usual.field)) \
    out += text(out.empty() ? "" : ", ", variable, "=", shown(settings.field));
#include <anello/settings.def>
#undef ANELLO_SETTING
  return out;
}

const std::vector<SettingRow>& setting_rows() {
  static const std::vector<SettingRow> rows = {
#define ANELLO_SETTING(field, type, variable, value, unit, min, max, kind, sentence) \
  {variable, #kind, unit, #value, sentence},
#include <anello/settings.def>
#undef ANELLO_SETTING
  };
  return rows;
}

std::string settings_table(bool markdown) {
  std::string out = markdown ? "| Variable | Default | Unit or choices | What it does |\n|---|---|---|---|\n" : "";
  for (const SettingRow& row : setting_rows()) {
    std::string fallback(row.fallback == "-1" || row.fallback == "\"\"" ? "" : row.fallback);
    std::erase(fallback, '"');
    if (markdown) {
      std::string unit(row.unit);
      for (std::size_t at = 0; (at = unit.find('|', at)) != std::string::npos; at += 2) unit.replace(at, 1, "\\|");
      out += text("| `", row.variable, "` | ", fallback, " | ", unit, " | ", row.sentence, " |\n");
    } else {
      out += text("  ", row.variable, std::string(28 - row.variable.size(), ' '), row.sentence);
      if (!row.unit.empty()) out += text(" [", row.unit, "]");
      if (!fallback.empty()) out += text(" (", fallback, ")");
      out += "\n";
    }
  }
  return out;
}

}  // namespace anello
