// Quotes and splits command lines like a POSIX shell. Pure. Any thread.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace anello::launch {

// Returns `word` as one word for a shell, in quotes if the word needs quotes.
std::string quoted(const std::string& word);

// Splits `line` at its blanks, except in quotes and after a backslash. Substitutes nothing: $, ~ and * are kept. If a
// quote is not closed, throws Error{configuration} that names `what`.
std::vector<std::string> split_words(std::string_view what, std::string_view line);

}  // namespace anello::launch
