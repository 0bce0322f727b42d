// Settings as text: reads the environment (no other file does), makes the table for help, and compares settings of
// ranks.
#pragma once
#include <anello/settings.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace anello {

// Returns the variable's value; empty if it is not set or has no characters. The only getenv in the tree.
std::optional<std::string> environment(const char* variable);

// Returns the settings that must be equal on all ranks, as "VARIABLE=value" lines, for comparison at start.
std::string wire_settings(const Settings& settings);

// Returns the settings that differ from their defaults, as "VARIABLE=value, ...", without those that a launcher sets.
std::string changed_settings(const Settings& settings);

// Returns the names and values of all ANELLO_ variables of the environment that are not empty.
std::vector<std::pair<std::string, std::string>> environment_settings();

bool is_setting(std::string_view variable);

// For each variable of the environment that begins with ANELLO_, is not a setting, but is similar to one, returns a
// sentence that names the similar setting.
std::vector<std::string> misspelt_settings();

// Returns the setting whose name differs in at most two letters. If there is none, returns the setting whose name is
// the beginning of `variable`, or an empty text.
std::string_view nearest_setting(std::string_view variable);

// Parses a whole number in [min, max]. Throws Error{configuration} that names `what`, the text and the range.
long parse_number(std::string_view what, std::string_view digits, long min, long max);

// Returns the settings as a table: variable, default, unit or choices, sentence; in Markdown for the README, or plain
// for --help.
std::string settings_table(bool markdown);

}  // namespace anello
