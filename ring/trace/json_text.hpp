// JSON strings; the other values that are written here are numbers.
#pragma once
#include <string>
#include <string_view>

namespace anello::trace {

// Returns the text in quotes. Bytes that are not UTF-8 become U+FFFD.
std::string json_text(std::string_view text);

}  // namespace anello::trace
