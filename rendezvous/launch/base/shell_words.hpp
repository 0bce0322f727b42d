// Quotes and splits command lines as a POSIX shell does. Pure. Any thread.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace anello::launch {

// Returns `word` as one word for a shell, in quotes if it needs them.
std::string quoted(const std::string& word);

// Splits `line` at its blanks, except in quotes or after a backslash. Nothing is substituted: $, ~ and * are kept.
// Throws Error{configuration} that names `what` if a quote is not closed.
std::vector<std::string> split_words(std::string_view what, std::string_view line);

}  // namespace anello::launch
