// Text files of users, whose editors may write more than they show. Pure. Any thread.
#pragma once
#include <string>
#include <string_view>

namespace anello::launch {

// The content without the byte order mark that some editors put before it, and with \n after each line where it has \r
// or \r\n. Throws Error{configuration} that names `path` if it is no text in UTF-8 or ASCII, but in UTF-16 for example.
std::string plain_text(const std::string& path, std::string content);

// For messages: the first character that is not ASCII, as "U+00A0 (a space that does not break a line)". Empty: none.
std::string first_unusual_character(std::string_view text);

}  // namespace anello::launch
