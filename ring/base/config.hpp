// Settings as text: reading the environment (the only place that does), the table for help, comparison between ranks.
#pragma once
#include <anello/settings.hpp>
#include <optional>
#include <string>

namespace anello {

// The variable's value; nothing if unset or empty. The only getenv in the tree.
std::optional<std::string> environment(const char* variable);

// The settings that must agree between ranks, as "VARIABLE=value" lines, to be compared at start.
std::string wire_settings(const Settings& settings);

// A whole number in [min, max], or Error{configuration} that names `what`, the text and the range.
long parse_number(std::string_view what, std::string_view digits, long min, long max);

// The settings as a table: variable, default, unit or choices, sentence. Markdown for the README, or plain for --help.
std::string settings_table(bool markdown);

}  // namespace anello
