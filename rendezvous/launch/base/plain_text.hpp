// Text files of users, whose editors may add invisible characters. Pure. Any thread.
#pragma once
#include <string>
#include <string_view>

namespace anello::launch {

// Returns the content without a byte order mark at its beginning, and with \n in place of each \r or \r\n. If the
// content is not UTF-8 or ASCII (but UTF-16, for example), throws Error{configuration} that names `path`.
std::string plain_text(const std::string& path, std::string content);

// Returns the first character that is not ASCII, for error messages: "U+00A0 (a space that does not break a line)".
// Empty if all characters are ASCII.
std::string first_unusual_character(std::string_view text);

}  // namespace anello::launch
