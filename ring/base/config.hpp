// Settings as text: reading the environment (the only place that does), the table for help, comparison between ranks.
#pragma once
#include <anello/settings.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace anello {

// The variable's value; nothing if unset or empty. The only getenv in the tree.
std::optional<std::string> environment(const char* variable);

// The settings that must agree between ranks, as "VARIABLE=value" lines, to be compared at start.
std::string wire_settings(const Settings& settings);

// The settings that differ from their defaults, as "VARIABLE=value, ..."; without those that a launcher sets.
std::string changed_settings(const Settings& settings);

// The names of all ANELLO_ variables of the environment that are not empty, and their values.
std::vector<std::pair<std::string, std::string>> environment_settings();

bool is_setting(std::string_view variable);

// For each ANELLO_ variable of the environment that is not a setting but nearly one, a sentence that names the setting.
std::vector<std::string> misspelt_settings();

// The setting whose name differs in at most two letters, or else that whose name the variable begins with; empty if
// there is none.
std::string_view nearest_setting(std::string_view variable);

// A whole number in [min, max], or Error{configuration} that names `what`, the text and the range.
long parse_number(std::string_view what, std::string_view digits, long min, long max);

// The settings as a table: variable, default, unit or choices, sentence. Markdown for the README, or plain for --help.
std::string settings_table(bool markdown);

}  // namespace anello
