// Words of command lines, as a POSIX shell writes and reads them. Pure. Any thread.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace anello::launch {

// As one word for a shell, in quotes where it needs them.
std::string quoted(const std::string& word);

// The words of `line`, at whose blanks it is divided, except in quotes or after a backslash. Nothing is substituted:
// $, ~ and * are kept. Throws Error{configuration} that names `what` if a quote is not closed.
std::vector<std::string> split_words(std::string_view what, std::string_view line);

}  // namespace anello::launch
